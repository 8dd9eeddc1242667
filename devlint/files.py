"""Which files a run looks at, reading and writing them, and the worker processes that do the work.

Files are found as Ruff finds them: those that are named always, and in folders every .py and .pyi file that neither a
.gitignore nor an exclusion leaves out. Links to folders are not followed, so that no loop can form.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from devlint.config import Config, matches, posix
from devlint.finding import Finding, Group, Location

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor
    from multiprocessing.synchronize import Semaphore

    from pathspec import GitIgnoreSpec

T = TypeVar("T")
Action = Callable[[Path, bytes], T]
"""What is done with one file, given its path and its bytes. It is sent to other processes: a function of a module, or a
`functools.partial` of one."""

SUFFIXES = (".py", ".pyi")

ENOUGH_WORK = 1_000_000
"""Bytes of files with torch in them from which on worker processes are worth their start."""

_CHUNK = 16


class ChangedMeanwhile(Exception):
    """The file no longer holds what the fix was made for; it is left alone."""


# --- which files ------------------------------------------------------------------------------------------------------


def discover(
    paths: Sequence[Path | str], config: Config, say: Callable[[str], None] | None = None
) -> Iterator[Path | Finding]:
    """The files under these paths, each once: in the order of `paths`, and in a folder by name, links to files last.

    What is there and cannot be read (a folder without permission, a broken link, a loop of links, a named pipe) is a
    DEV901 finding. `say` is told what is passed over without one: links to folders, and notebooks that are named.
    """
    seen: set[str] = set()
    for path in paths:
        name = os.fspath(path)
        if config.force_exclude and is_excluded(name, config):
            continue
        try:
            mode = os.stat(name).st_mode
        except OSError as error:
            yield from _once(unreadable(name, _why(error)), os.path.abspath(name), seen)
            continue
        if stat.S_ISDIR(mode):
            yield from _walk(name, config, seen, say)
        elif name.endswith(".ipynb"):
            if say is not None:
                say(f"{name}: notebooks are not read")
        elif stat.S_ISREG(mode):
            yield from _once(Path(name), os.path.realpath(name), seen)
        else:
            yield from _once(unreadable(name, _not_a_file(mode)), os.path.abspath(name), seen)


def is_excluded(path: Path | str, config: Config) -> bool:
    """Whether an exclusion leaves out this file or a folder above it, as far up as the project's root."""
    absolute = posix(os.path.abspath(path))
    return any(
        matches(pattern, absolute, posix(str(config.root))) for pattern in (*config.exclude, *config.extend_exclude)
    )


def _walk(root: str, config: Config, seen: set[str], say: Callable[[str], None] | None) -> Iterator[Path | Finding]:
    excluded = _Exclusions(config)
    real = os.path.realpath(root)
    ignores = _inherited_ignores(real) if config.respect_gitignore else None
    # One entry is a folder: as shown, as it really is, and the .gitignore files that hold in it.
    folders: list[tuple[str, str, _Ignores | None] | Path | Finding] = [(root, real, ignores)]
    # Links come last, so that a file that is found by its own name too goes by that.
    links: list[tuple[str, str, bool]] = []
    while folders:
        folder = folders.pop()
        if not isinstance(folder, tuple):
            yield folder
            continue
        shown, real, ignores = folder
        try:
            with os.scandir(shown) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            yield from _once(unreadable(shown, _why(error)), real, seen)
            continue
        if ignores is not None and any(entry.name == ".gitignore" for entry in entries):
            ignores = ignores.with_file(real, os.path.join(shown, ".gitignore"))
        inside: list[tuple[str, str, _Ignores | None] | Path | Finding] = []
        for entry in entries:
            name = entry.name
            is_python = name.endswith(SUFFIXES)
            is_link = entry.is_symlink()
            is_folder = not is_link and entry.is_dir(follow_symlinks=False)
            if not (is_python or is_folder or (is_link and say is not None)):
                continue
            path = name if shown == "." else os.path.join(shown, name)
            key = os.path.join(real, name)
            if excluded(name, key) or (ignores is not None and ignores.ignored(key, is_folder)):
                continue
            if is_folder:
                inside.append((path, key, ignores))
            elif is_link:
                links.append((path, key, is_python))
            elif entry.is_file(follow_symlinks=False):
                inside.extend(_once(Path(path), key, seen))
            else:
                inside.extend(_once(unreadable(path, _not_a_file(os.lstat(path).st_mode)), key, seen))
        folders.extend(reversed(inside))
    for path, key, is_python in links:
        yield from _link(path, key, is_python, seen, say)


def _link(
    path: str, key: str, is_python: bool, seen: set[str], say: Callable[[str], None] | None
) -> Iterator[Path | Finding]:
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        if is_python:
            yield from _once(unreadable(path, _why(error)), key, seen)
        return
    if stat.S_ISDIR(mode):
        if say is not None:
            say(f"{path}: a link to a folder is not followed")
    elif is_python and stat.S_ISREG(mode):
        yield from _once(Path(path), os.path.realpath(path), seen)
    elif is_python:
        yield from _once(unreadable(path, _not_a_file(mode)), key, seen)


def _once(item: Path | Finding, key: str, seen: set[str]) -> Iterator[Path | Finding]:
    """The item, unless the file was met before under this or another name."""
    if key not in seen:
        seen.add(key)
        yield item


class _Exclusions:
    """The patterns of a configuration, sorted so that most entries of a folder cost one look into a set."""

    def __init__(self, config: Config) -> None:
        patterns = [pattern.rstrip("/") for pattern in (*config.exclude, *config.extend_exclude)]
        special = {pattern for pattern in patterns if any(sign in pattern for sign in "*?[/")}
        self._names = frozenset(patterns) - special
        self._special = tuple(special)

    def __call__(self, name: str, absolute: str) -> bool:
        """Whether this entry is left out; the folders above it are known not to be."""
        if name in self._names:
            return True
        absolute = posix(absolute)
        folder = absolute[: -len(name) - 1]
        return any(matches(pattern, absolute, folder) for pattern in self._special)


class _Ignores:
    """The .gitignore files that hold in a folder, the nearest last."""

    def __init__(self, specs: tuple[tuple[str, GitIgnoreSpec], ...] = ()) -> None:
        self._specs = specs

    def with_file(self, folder: str, path: str) -> _Ignores:
        """These and one more, which holds from `folder` on. A file that cannot be read holds nothing, as in git."""
        spec = _read_ignores(path)
        return self if spec is None else _Ignores((*self._specs, (os.path.join(folder, ""), spec)))

    def ignored(self, path: str, is_folder: bool) -> bool:
        """Whether git ignores this path; the nearest file that says something of it decides."""
        for base, spec in reversed(self._specs):
            relative = posix(path[len(base) :]) + ("/" if is_folder else "")
            include = spec.check_file(relative).include
            if include is not None:
                return include
        return False


def _inherited_ignores(folder: str) -> _Ignores:
    """What holds in a folder by the .gitignore files above it, up to the top of the repository.

    A folder that is itself ignored was named on the line all the same: then only the files in it count.
    """
    above: list[str] = []
    current = folder
    while not os.path.lexists(os.path.join(current, ".git")):
        parent = os.path.dirname(current)
        if parent == current:
            return _Ignores()
        above.append(parent)
        current = parent
    ignores = _Ignores().with_file(current, os.path.join(current, ".git", "info", "exclude"))
    for parent in reversed(above):
        ignores = ignores.with_file(parent, os.path.join(parent, ".gitignore"))
    return _Ignores() if above and ignores.ignored(folder, True) else ignores


def _read_ignores(path: str) -> GitIgnoreSpec | None:
    try:
        with open(path, "rb") as file:
            lines = file.read().decode("utf-8-sig", "surrogateescape").splitlines()
    except OSError:
        return None
    if not any(line.strip() and not line.startswith("#") for line in lines):
        return None
    from pathspec import GitIgnoreSpec

    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError:
        return GitIgnoreSpec.from_lines([line for line in lines if _is_pattern(line)])


def _is_pattern(line: str) -> bool:
    """Whether this is a line that git can use; it passes over others."""
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


# --- reading and writing ----------------------------------------------------------------------------------------------


def read_file(path: Path) -> bytes:
    """The bytes of a regular file. Raises OSError for anything else, at once: a named pipe is not waited for."""
    # Without this flag the opening of a pipe waits for a writer; a regular file does not heed it.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(descriptor, "rb") as file:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(_not_a_file(mode))
        return file.read()


def write_atomically(path: Path, old: bytes, new: bytes) -> None:
    """Put `new` in the place of `old`: all of it or nothing. The mode stays, and a link stays a link to the same file.

    Raises ChangedMeanwhile when the file no longer holds `old`, OSError when it may not or cannot be written.
    """
    import tempfile

    target = os.path.realpath(path)
    # Renaming needs no permission on the file itself, but who made it read-only wants it to stay as it is.
    if not os.access(target, os.W_OK):
        import errno

        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    status = os.stat(target)
    descriptor, temporary = tempfile.mkstemp(prefix=".devlint-", dir=os.path.dirname(target))
    try:
        with open(descriptor, "wb") as file:
            file.write(new)
            file.flush()
            os.fsync(descriptor)
        _same_owner_and_mode(temporary, status)
        if read_file(Path(target)) != old:
            raise ChangedMeanwhile(f"{path} was changed while it was being fixed")
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def _same_owner_and_mode(path: str, status: os.stat_result) -> None:
    if hasattr(os, "chown") and (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        import contextlib

        # Only root may give a file away; for others it becomes theirs, as with an editor.
        with contextlib.suppress(OSError):
            os.chown(path, status.st_uid, status.st_gid)
    os.chmod(path, stat.S_IMODE(status.st_mode))


def unreadable(path: str, why: str) -> Finding:
    """The finding for a file or folder that cannot be read."""
    return _own_finding("DEV901", f"cannot be read: {why}", path)


def _own_finding(code: str, message: str, path: str) -> Finding:
    from devlint.checks import OWN

    name = next(info.name for info in OWN if info.code == code)
    start = Location(1, 1)
    return Finding(code=code, name=name, message=message, path=path, start=start, end=start, group=Group.BUG)


def _why(error: OSError) -> str:
    import errno

    if error.errno == errno.ELOOP:
        return "the symbolic link leads back to itself"
    if error.errno == errno.ENOENT and error.filename is not None and os.path.islink(error.filename):
        return "the symbolic link is broken"
    return (error.strerror or str(error)).lower() or type(error).__name__


def _not_a_file(mode: int) -> str:
    kinds = ((stat.S_ISFIFO, "a named pipe"), (stat.S_ISSOCK, "a socket"), (stat.S_ISDIR, "a directory"))
    kind = next((name for is_kind, name in kinds if is_kind(mode)), "a device")
    return f"{kind}, not a regular file"


# --- doing the work ---------------------------------------------------------------------------------------------------


def run(
    paths: Sequence[Path | str],
    config: Config,
    jobs: int | None,
    action: Action[T],
    *,
    say: Callable[[str], None] | None = None,
) -> Iterator[T | Finding]:
    """What `action` gives for each file under `paths`, in the order of `discover`; see `run_on`."""
    return run_on(list(discover(paths, config, say)), jobs, action)


def run_on(found: Sequence[Path | Finding], jobs: int | None, action: Action[T]) -> Iterator[T | Finding]:
    """What `action` gives for each file, in order; findings among `found` are handed on.

    A file that cannot be read gives a DEV901 finding, one on which `action` raises or its process dies a DEV999; the
    others go on. `jobs` is the greatest number of processes, None as many as there are CPUs; none is started for little
    work.
    """
    jobs = _cpus() if jobs is None else jobs
    if jobs > 1 and _much_work(found) and _can_start_processes():
        yield from _in_processes(found, jobs, action)
    else:
        collect_rarely()
        for item in found:
            yield item if isinstance(item, Finding) else _one(item, action)


def _one(path: Path, action: Action[T]) -> T | Finding:
    try:
        data = read_file(path)
    except OSError as error:
        return unreadable(str(path), _why(error))
    try:
        return action(path, data)
    except Exception as error:
        return crashed(str(path), error)


def crashed(path: str, error: BaseException) -> Finding:
    """The finding for a file on which devlint itself failed."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f" in {Path(trace.tb_frame.f_code.co_filename).stem}, line {trace.tb_lineno}"
    words = " ".join(str(error).split())
    what = type(error).__name__ + (f": {words}" if words else "")
    return _own_finding("DEV999", f"devlint failed on this file{where}: {what}", path)


def _cpus() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def _can_start_processes() -> bool:
    """Whether this system has what processes need to share work; some containers and small systems lack it."""
    try:
        from multiprocessing import synchronize  # noqa: F401
    except ImportError:
        return False
    return True


def _much_work(found: Iterable[Path | Finding]) -> bool:
    """Whether the files with torch in them are worth worker processes; reading goes no further than that is known."""
    work = files = 0
    for item in found:
        if isinstance(item, Path):
            try:
                data = read_file(item)
            except OSError:
                continue
            if b"torch" in data:
                work, files = work + len(data), files + 1
                if work >= ENOUGH_WORK and files > 1:
                    return True
    return False


def _in_processes(found: Sequence[Path | Finding], jobs: int, action: Action[T]) -> Iterator[T | Finding]:
    import multiprocessing

    size = max(1, min(_CHUNK, len(found) // (4 * jobs)))
    chunks = [found[start : start + size] for start in range(0, len(found), size)]
    stop = multiprocessing.get_context("spawn").Semaphore(0)
    ready: dict[int, list[T | Finding]] = {}
    done = 0
    while done < len(chunks):
        waiting = [number for number in range(done, len(chunks)) if number not in ready]
        pool = _pool(min(jobs, max(len(waiting), 1)), stop)
        try:
            futures = {number: _submit(pool, chunks[number], action) for number in waiting}
            while done < len(chunks):
                results = ready.pop(done) if done in ready else _outcome(futures[done])
                if results is None:
                    break
                yield from results
                done += 1
            # If a process died, of a fault that Python cannot catch or for want of memory, some are not done.
            for number in waiting:
                if number > done and (results := _outcome(futures[number], wait=False)) is not None:
                    ready[number] = results
        except BaseException:  # Ctrl-C: each process ends the file at hand, and begins no other
            stop.release()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
        pool.shutdown(wait=False, cancel_futures=True)
        if done < len(chunks) and not ready and not _workers_live(action, stop):
            # As in a program that does its work on being imported: Python starts no process from it.
            for chunk in chunks[done:]:
                yield from _many(chunk, action)
            return
        # Chunks are begun in order, so it was in one of the first of these: they are done file by file, and then the
        # others together again.
        suspects = [number for number in waiting if number >= done and number not in ready][:jobs]
        ready.update((number, list(_one_by_one(chunks[number], action, stop))) for number in suspects)


def _workers_live(action: Action[T], stop: Semaphore) -> bool:
    """Whether a process can be started here that lives until it is given work."""
    pool = _pool(1, stop)
    try:
        return _outcome(_submit(pool, (), action)) is not None
    finally:
        pool.shutdown(wait=False)


def _one_by_one(chunk: Sequence[Path | Finding], action: Action[T], stop: Semaphore) -> Iterator[T | Finding]:
    pool: ProcessPoolExecutor | None = None
    try:
        for item in chunk:
            pool = pool or _pool(1, stop)
            results = _outcome(_submit(pool, (item,), action))
            if results is None:
                yield _own_finding("DEV999", "devlint failed on this file: its process died", str(item))
                pool.shutdown(wait=False)
                pool = None
            else:
                yield from results
    finally:
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)


def _submit(
    pool: ProcessPoolExecutor, chunk: Sequence[Path | Finding], action: Action[T]
) -> Future[list[T | Finding]] | None:
    """The work on a chunk, begun; None where the processes died before."""
    from concurrent.futures.process import BrokenProcessPool

    try:
        return pool.submit(_many, chunk, action)
    except BrokenProcessPool:
        return None


def _outcome(future: Future[list[T | Finding]] | None, wait: bool = True) -> list[T | Finding] | None:
    """What came of a chunk; None where its process died, or where it is not done and not waited for."""
    from concurrent.futures.process import BrokenProcessPool

    try:
        return None if future is None or not (wait or future.done()) else future.result()
    except BrokenProcessPool:
        return None


_stop: Semaphore | None = None
"""In a worker process: free once nobody waits for its work any more."""


def _many(chunk: Sequence[Path | Finding], action: Action[T]) -> list[T | Finding]:
    results: list[T | Finding] = []
    for item in chunk:
        # Tried and given back, without a wait: a process that dies at this point keeps nothing that others need.
        if _stop is not None and _stop.acquire(block=False):
            _stop.release()
            break
        results.append(item if isinstance(item, Finding) else _one(item, action))
    return results


def _pool(workers: int, stop: Semaphore) -> ProcessPoolExecutor:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    # Started afresh everywhere: a fork of a process with threads may hang.
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _begin_worker, (stop,))


def _begin_worker(stop: Semaphore) -> None:
    """Leave Ctrl-C to the main process, which frees `stop`, so that not every worker prints a traceback."""
    import signal

    global _stop
    _stop = stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    collect_rarely()


def collect_rarely() -> None:
    """Let Python look for cycles less often than it does by default, in a process that is devlint's own.

    The trees of a project's files are kept and hold hundreds of thousands of objects, which each look goes through.
    Without this, a package whose files import much of each other takes a third more time.
    """
    import gc

    gc.set_threshold(100_000, 20, 100)
