"""Text without spaces is indexed and found by its bigrams."""

import unicodedata

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolindex._rows import segments
from toolscan import Parameter, ScanReport

UNSPACED = st.text(
    st.one_of(
        st.characters(min_codepoint=0x3000, max_codepoint=0x30FF),
        st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF),
        st.characters(min_codepoint=0xAC00, max_codepoint=0xD7A3),
        st.characters(min_codepoint=0x0E00, max_codepoint=0x0EFF),
        st.characters(min_codepoint=0x1000, max_codepoint=0x11FF),
        st.characters(min_codepoint=0x1780, max_codepoint=0x17FF),
        st.characters(min_codepoint=0xFF00, max_codepoint=0xFFEF),
        st.characters(exclude_categories=["Cs"]),
    )
)


@pytest.mark.parametrize(
    ("text", "bigrams"),
    [
        ("発送", "発送"),
        ("送信する", "送信 信す する"),
        ("合并多个文件", "合并 并多 多个 个文 文件"),
        ("字", "字"),
        ("", ""),
        ("send an e-mail, à la carte, отправить, भेजें", ""),
        # Han and kana are one class; other scripts are separated from them and from each other.
        ("メールを送る", "メー ール ルを を送 送る"),
        ("파일保存", "파일 保存"),
        ("파일을 합치기", "파일 일을 합치 치기"),
        # Letters of other scripts, digits and punctuation end a run.
        ("PDFを結合。表2枚", "を結 結合 表 枚"),
        ("人々〇ー", "人々 々〇 〇ー"),
        # Marks belong to the letter before them and are left out, because FTS5 ends words there.
        ("ที่อยู่", "ทอ อย"),
        ("ຂໍ້ຄວາມ", "ຂຄ ຄວ ວາ າມ"),
        ("ផ្ញើ", "ផញ"),
        ("ပေးပို့", "ပပ"),
        ("\u0e48", ""),
        # NFKC: compatibility forms become what they stand for.
        ("ﾒｰﾙ㈱", "メー ール 株"),
        ("か\u3099く", "がく"),
        # Beyond the basic plane.
        ("𠮷野家", "𠮷野 野家"),
    ],
)
def test_every_run_of_letters_is_split_into_overlapping_bigrams_in_order(text, bigrams):
    assert segments([text]) == bigrams


@given(UNSPACED)
def test_the_full_text_table_treats_every_bigram_as_one_word(text):
    connection = apsw.Connection("")
    tokenizer = connection.fts5_tokenizer("porter", ["unicode61"])
    given_ = segments([text])
    words = tokenizer(
        given_.encode(),
        apsw.FTS5_TOKENIZE_DOCUMENT,
        None,
        include_offsets=False,
        include_colocated=False,
    )
    assert words == given_.split()


@given(UNSPACED)
def test_upper_case_makes_no_difference(text):
    assert segments([text.lower()]) == segments([text])


@given(UNSPACED, st.data())
def test_part_of_a_run_is_found_by_its_bigrams(text, data):
    letters = "".join(c for c in unicodedata.normalize("NFKC", text) if "一" <= c <= "鿿")
    start = data.draw(st.integers(0, len(letters)))
    part = letters[start : data.draw(st.integers(start, len(letters)))]
    if len(part) != 1:
        assert segments([part]) in segments([letters])


def test_names_descriptions_parameters_categories_and_tags_are_searched(
    index, make_record, matches
):
    parameters = (
        Parameter(name="宛先", annotation="", required=True, description="受取人の住所"),
        Parameter(name="x", annotation="", required=True, alias="件名"),
    )
    record = make_record(
        "mcptools:電子郵便:送信する",
        "手紙を出す。",
        parameters=parameters,
        tags=("外部連絡", "mail"),
    )
    other = make_record("mcptools:mail:send", "Send a letter.")
    index.sync(ScanReport(records=(record, other)), reader_version="1")
    for bigram in ("送信", "手紙", "宛先", "住所", "件名", "郵便", "連絡"):
        assert matches(index, f'"{bigram}"') == {str(record.id)}, bigram
    with index.reading() as reader:
        held = dict(reader.connection.execute("SELECT id, segments FROM entries"))
    assert held[str(other.id)] == ""
