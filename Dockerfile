FROM python:3.13-slim
COPY packages /src/packages
COPY apps /src/apps
RUN cd /src && pip install --no-cache-dir ./packages/toolscan ./packages/toolindex ./packages/toolrank \
    ./packages/toolwatch ./packages/toolembed ./packages/toolimport ./apps/pytools-hybrid \
    && rm -r /src && useradd --uid 1000 --create-home --home-dir /srv/pytools pytools
USER pytools
ENV PYTOOLS_DIR=/tools PYTOOLS_DATABASE=/srv/pytools/index.db \
    PYTOOLS_TRANSPORT=http PYTOOLS_HOST=0.0.0.0 PYTOOLS_PORT=8000
EXPOSE 8000
ENTRYPOINT ["pytools-hybrid"]
CMD ["serve"]
