"""What a store promises to those who use it at once: threads, and other processes."""

def _check_states(store: ToolStore) -> None:
    """A look sees one state of the store, and every look after a change sees the change."""
    fill(store, TOOLS)
    embed(store, {"send": 0.0, "read": 0.5, "merge": 1.0, "split": 1.5})
    promise = "a look sees one state of the store, whatever others write meanwhile"
    with store.reading() as reader:
        generation = reader.generation()
        writer = threading.Thread(target=fill, args=(store, {}), daemon=True)
        writer.start()
        writer.join(_PATIENCE_SECONDS)
        expect(writer.is_alive(), False, "a look keeps nobody from writing")
        expect(reader.coverage("m").tools, 4, promise)
        expect(len(reader.entries(["mcptools:mail:send"])), 1, promise)
        expect(words(reader, "mailbox"), ["mcptools:mail:read"], promise)
        expect(len(near(reader)), 4, promise)
        expect(reader.generation(), generation, promise)
    with store.reading() as reader:
        expect(reader.coverage("m").tools, 0, "a look sees every change that ended before it")


def _check_threads(store: ToolStore) -> None:
    """Every call may come from any thread, and sees whole changes."""
    fill(store, TOOLS)
    failures: list[BaseException] = []
    promise = "of two changes made at once, each is whole"

    def write() -> None:
        for modules in (_FEWER, TOOLS, _FEWER, TOOLS):
            fill(store, modules)
            embed(store, {"send": 0.0, "read": 0.5, "merge": 1.0, "split": 1.5})

    def read() -> None:
        for _ in range(20):
            with store.reading() as reader:
                count = reader.coverage("m").tools
                expect(count in {3, 4}, True, promise)
                expect(len(words(reader, "message messages files file")), count, promise)

    def recorded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - it is raised below
            failures.append(error)

    threads = [
        threading.Thread(target=recorded, args=(work,), daemon=True)
        for work in (write, write, read, read)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_PATIENCE_SECONDS)
        expect(thread.is_alive(), False, "threads do not keep each other waiting for ever")
    for failure in failures:
        raise failure


def _check_leases(store: ToolStore) -> None:
    """A lease is held once."""
    first, second = store.lease("files"), store.lease("files")
    expect(first.acquire(timeout=0), True, "a lease that nobody holds can be had")
    expect(second.acquire(timeout=0.01), False, "a lease is held once")
    other = store.lease("another kind of work")
    expect(
        other.acquire(timeout=0), True, "leases of different purposes do not wait for each other"
    )
    other.release()
    first.release()
    expect(second.acquire(timeout=0), True, "a lease that was given back is free")
    second.release()


def _check_two_handles(
    store: _Store, reopen: Callable[[_Store], AbstractContextManager[ToolStore]]
) -> None:
    """What is written through one handle is seen through every other."""
    promise = "a change is seen by every look after it, also in other processes"
    with reopen(store) as other:
        with other.reading() as reader:
            before = reader.generation()
        fill(store, TOOLS)
        embed(store, {"send": 0.0, "read": 0.5, "merge": 1.0, "split": 1.5})
        store.query_vectors.put("m", {"merge files": [1.0, 0.0]})
        with other.reading() as reader:
            expect(reader.generation() != before, True, promise)
            expect(words(reader, "mailbox"), ["mcptools:mail:read"], promise)
            expect(near(reader)[0], "mcptools:mail:send", promise)
        expect(other.query_vectors.get("m", "merge files") is not None, True, promise)
        fill(other, _FEWER)
        expect(stored_paths(store), set(_FEWER), promise)
        mine, theirs = store.lease("files"), other.lease("files")
        expect(mine.acquire(timeout=0), True, "a lease that nobody holds can be had")
        expect(theirs.acquire(timeout=0), False, "a lease is held once, among processes too")
        mine.release()
        store.close()
        expect(stored_paths(other), set(_FEWER), "closing one handle closes no other")
    with reopen(store) as later:
        expect(stored_paths(later), set(_FEWER), "a store keeps what it holds when it is closed")
        expect(dict(later.pending("m", limit=9)), {}, "a store keeps its vectors when it is closed")


