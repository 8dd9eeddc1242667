"""Finding files, reading and writing them, and worker processes."""

from __future__ import annotations

import multiprocessing
import os
import re
import socket
import stat
import subprocess
import sys
import textwrap
import time
from functools import partial
from pathlib import Path

import pytest
from support import environment

from devlint import files
from devlint.checks import OWN
from devlint.config import Config, load_config
from devlint.files import ChangedMeanwhile, discover, is_excluded, read_file, run, run_on, write_atomically
from devlint.finding import Finding

on_posix = pytest.mark.skipif(os.name != "posix", reason="named pipes, modes and users are as on Unix")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make(*paths, text="import torch\n"):
    for path in map(Path, paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def found(*paths, say=None, **options):
    """The paths found, with slashes; a finding as its path and message."""
    config = load_config(None, options, {})
    items = discover(paths or (".",), config, say)
    return [f"{item.path}: {item.message}" if isinstance(item, Finding) else item.as_posix() for item in items]


# --- which files ------------------------------------------------------------------------------------------------------


def test_python_files_are_found_in_order():
    make(
        "b.py",
        "a/z.py",
        "a/b/c.pyi",
        "a.py",
        "a/a.txt",
        "c.pyc",
        "d.ipynb",
        "e.PY",
        "f.pyw",
        "noext",
        "z/.hidden.py",
        ".h/x.py",
    )
    assert found() == [".h/x.py", "a/b/c.pyi", "a/z.py", "a.py", "b.py", "z/.hidden.py"]
    assert found("a", "b.py") == ["a/b/c.pyi", "a/z.py", "b.py"]
    assert found("b.py", "a") == ["b.py", "a/b/c.pyi", "a/z.py"]
    assert found("./a") == ["a/b/c.pyi", "a/z.py"]
    here = Path.cwd().as_posix()
    assert found(Path.cwd() / "a") == [f"{here}/a/b/c.pyi", f"{here}/a/z.py"]
    assert found("empty") == ["empty: cannot be read: no such file or directory"]


def test_each_file_is_found_once():
    make("a/b.py", "a/c/d.py")
    assert found("a/b.py", "a", "a/c", ".", "./a/b.py", Path.cwd() / "a") == ["a/b.py", "a/c/d.py"]


def test_a_named_file_is_taken_whatever_it_is_called():
    make("script", "a.txt", "build/x.py")
    assert found("script", "a.txt", "build/x.py") == ["script", "a.txt", "build/x.py"]


def test_a_notebook_is_not_taken_for_python():
    make("a.py", "nb.ipynb")
    said = []
    assert found("nb.ipynb", "a.py", say=said.append) == ["a.py"]
    assert said == ["nb.ipynb: notebooks are not read"]


def test_default_exclusions():
    make(
        "a.py",
        *(f"{name}/x.py" for name in (".venv", "build", "node_modules", "a/site-packages", "dist", ".git", "a/builds")),
    )
    assert found() == ["a/builds/x.py", "a.py"]
    assert found("build", ".venv") == ["build/x.py", ".venv/x.py"], "a named folder is meant"
    assert found(exclude=["a"]) == sorted(
        [".git/x.py", ".venv/x.py", "build/x.py", "dist/x.py", "node_modules/x.py", "a.py"],
        key=lambda p: p.split("/")[0],
    )
    assert found(extend_exclude=["a"]) == ["a.py"]


@pytest.mark.parametrize(
    ("pattern", "left_out"),
    [
        ("b", {"a/b/c.py", "a/b/d.py"}),
        ("a/b", {"a/b/c.py", "a/b/d.py"}),
        ("a/b/", {"a/b/c.py", "a/b/d.py"}),
        ("./a/b", {"a/b/c.py", "a/b/d.py"}),
        ("b/c.py", set()),
        ("**/b/c.py", {"a/b/c.py"}),
        ("c.py", {"a/b/c.py"}),
        ("*.py", {"a/b/c.py", "a/b/d.py", "x_pb2.py"}),
        ("*_pb2.py", {"x_pb2.py"}),
        ("a/*.py", {"a/b/c.py", "a/b/d.py"}),
        ("a/?/c.py", {"a/b/c.py"}),
        ("[cd].py", {"a/b/c.py", "a/b/d.py"}),
        ("nothing", set()),
    ],
)
def test_exclusions(pattern, left_out):
    everything = ["a/b/c.py", "a/b/d.py", "x_pb2.py"]
    make(*everything)
    assert found(exclude=[pattern]) == [path for path in everything if path not in left_out]
    assert found(*everything, exclude=[pattern]) == everything, "what is named is taken"
    assert found(*everything, exclude=[pattern], force_exclude=True) == [p for p in everything if p not in left_out]


def test_forced_exclusions_hold_for_named_folders_and_below_the_root_only(tmp_path, monkeypatch):
    make("build/a/x.py", "y.py")
    assert found("build/a", "build/a/x.py", "y.py", force_exclude=True) == ["y.py"]
    monkeypatch.chdir("build")
    assert found(".", force_exclude=True) == ["a/x.py"], "the checkout itself may be in a folder called build"
    assert found("a/x.py", force_exclude=True) == ["a/x.py"]
    assert not is_excluded("a/x.py", Config())
    assert is_excluded("dist/x.py", Config())


def test_gitignore():
    make(
        "a.py",
        "b.py",
        "gen/x.py",
        "gen/keep.py",
        "deep/gen/y.py",
        "deep/own.py",
        "deep/er/own.py",
        "deep/er/b.py",
        "out/z.py",
        "foo[1].py",
    )
    Path(".gitignore").write_text("# note\n\nb.py\n/gen/*\n!/gen/keep.py\nout/\nfoo\\[1].py\n")
    Path("deep/.gitignore").write_text("/own.py\n!b.py\n")
    assert found() == ["a.py", "deep/er/b.py", "deep/er/own.py", "deep/gen/y.py", "gen/keep.py"]
    assert found("deep") == ["deep/er/b.py", "deep/er/own.py", "deep/gen/y.py"]
    assert found("b.py", "gen/x.py") == ["b.py", "gen/x.py"], "what is named is taken"
    assert found("out") == ["out/z.py"]
    assert "b.py" in found(respect_gitignore=False)
    # Without a repository, the files above a named folder do not count; with one they do, up to its top.
    assert found("gen") == ["gen/keep.py", "gen/x.py"]
    Path(".git").mkdir()
    assert found("gen") == ["gen/keep.py"]
    assert found("out") == ["out/z.py"], "an ignored folder that is named is meant"
    assert found("deep/er") == ["deep/er/b.py", "deep/er/own.py"]


def test_gitignore_above_the_repository_does_not_count(tmp_path, monkeypatch):
    make("repo/a.py", "repo/sub/b.py")
    Path(".gitignore").write_text("*.py\n")
    Path("repo/.git").write_text("gitdir: elsewhere\n")
    monkeypatch.chdir("repo")
    assert found() == ["a.py", "sub/b.py"]
    assert found("sub") == ["sub/b.py"]


def test_the_repositorys_own_exclude_file_counts():
    make("a.py", "b.py", "s/b.py")
    Path(".git/info").mkdir(parents=True)
    Path(".git/info/exclude").write_text("b.py\n")
    assert found() == ["a.py"]
    assert found("s") == []


def test_odd_gitignores():
    make("a.py", "b.py", "é.py", "c.py")
    Path(".gitignore").write_bytes(b"\xef\xbb\xbfb.py\r\n!\n[z-\n\xff\nc.py   \n" + "é.py\n".encode())
    assert found() == ["a.py"]
    Path(".gitignore").unlink()
    Path(".gitignore").mkdir()
    assert found() == ["a.py", "b.py", "c.py", "é.py"]


def test_gitignore_as_git_itself_reads_it():
    names = [
        "a.py",
        "x/a.py",
        "x/b.py",
        "x/y/a.py",
        "x/y/b.py",
        "x/y/z/c.py",
        "docs/a.py",
        "docs/x/a.py",
        "q r.py",
        "#n.py",
        "!m.py",
    ]
    make(*names)
    subprocess.run(["git", "init", "-q", "."], check=True)
    patterns = [
        "a.py",
        "/a.py",
        "x/",
        "/x/*",
        "x/**/b.py",
        "**/y",
        "!a.py",
        "docs/*.py",
        "x/y/",
        "*.py",
        "!*.py",
        "\\#n.py",
        "\\!m.py",
        "q\\ r.py",
        "x/*/a.py",
        "?.py",
        "**/z/**",
    ]
    for number in range(0, len(patterns), 2):
        for inner in ("", patterns[-number - 1] + "\n"):
            Path(".gitignore").write_text("\n".join(patterns[number : number + 3]) + "\n")
            Path("x/.gitignore").write_text(inner)
            listed = (
                subprocess.run(
                    [
                        "git",
                        "-c",
                        "core.excludesFile=/dev/null",
                        "ls-files",
                        "-z",
                        "--others",
                        "--exclude-standard",
                        "*.py",
                    ],
                    check=True,
                    capture_output=True,
                    env=environment(HOME=os.getcwd(), XDG_CONFIG_HOME=os.getcwd()),
                )
                .stdout.decode()
                .split("\0")
            )
            assert sorted(found()) == sorted(filter(None, listed)), (patterns[number : number + 3], inner)


def test_a_folder_named_like_a_file_is_a_folder():
    make("x.py/a.py", "x.py/y.pyi/b.py")
    assert found() == ["x.py/a.py", "x.py/y.pyi/b.py"]
    assert found("x.py") == ["x.py/a.py", "x.py/y.pyi/b.py"]


@on_posix
def test_links():
    make("real/a.py", "other/b.py")
    Path("link.py").symlink_to("other/b.py")
    Path("again.py").symlink_to("link.py")
    Path("folder").symlink_to("real")
    Path("real/up").symlink_to("..")
    Path("real/self.py").symlink_to("../real")
    Path("text.py").symlink_to("real")
    said = []
    assert found(say=said.append) == ["other/b.py", "real/a.py"], "a file is found once, by its own name"
    assert sorted(said) == [
        "folder: a link to a folder is not followed",
        "real/self.py: a link to a folder is not followed",
        "real/up: a link to a folder is not followed",
        "text.py: a link to a folder is not followed",
    ]
    assert found("folder") == ["folder/a.py"], "a link that is named is followed"
    assert found("folder", "real") == ["folder/a.py"]
    assert found("link.py", "other") == ["link.py"]
    make("third.txt")
    Path("z.py").symlink_to("third.txt")
    Path("again.py").unlink()
    Path("link.py").unlink()
    assert found() == ["other/b.py", "real/a.py", "z.py"]


@on_posix
def test_links_that_lead_nowhere():
    make("a.py")
    Path("broken.py").symlink_to("nothing")
    Path("loop.py").symlink_to("loop.py")
    Path("one.py").symlink_to("two.py")
    Path("two.py").symlink_to("one.py")
    Path("data").symlink_to("nothing")
    Path("loop").symlink_to("loop")
    expected = [
        "a.py",
        "broken.py: cannot be read: the symbolic link is broken",
        "loop.py: cannot be read: the symbolic link leads back to itself",
        "one.py: cannot be read: the symbolic link leads back to itself",
        "two.py: cannot be read: the symbolic link leads back to itself",
    ]
    assert found() == expected
    assert found("a.py", "broken.py", "loop.py", "one.py", "two.py") == expected
    assert found(say=lambda _: None) == expected
    assert found("data") == ["data: cannot be read: the symbolic link is broken"]


@on_posix
def test_what_is_no_file_is_said_and_not_waited_for():
    make("a.py")
    os.mkfifo("pipe.py")
    os.mkfifo("pipe")
    Path("to_pipe.py").symlink_to("pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.py")
        expected = [
            "a.py",
            "pipe.py: cannot be read: a named pipe, not a regular file",
            "socket.py: cannot be read: a socket, not a regular file",
            "to_pipe.py: cannot be read: a named pipe, not a regular file",
        ]
        assert found() == expected
        assert found("a.py", "pipe.py", "socket.py", "to_pipe.py") == expected
    assert found("/dev/null") == ["/dev/null: cannot be read: a device, not a regular file"]


def test_findings_on_files_are_dev901_of_the_catalogue():
    (finding,) = discover(["nothing.py"], Config())
    assert (finding.code, finding.path, finding.start.row, finding.start.column) == ("DEV901", "nothing.py", 1, 1)
    assert (finding.code, finding.name) in {(info.code, info.name) for info in OWN}


def without_root(code):
    """Run code in a child process that is not root, in the current folder; the lines that it prints."""
    # What is imported is imported before: the interpreter may lie where only root may read.
    head = """
        import contextlib, errno, os, tempfile
        from pathlib import Path
        from devlint.checks import OWN
        from devlint.config import Config
        from devlint.files import run, write_atomically
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        assert os.geteuid() != 0
        """
    for folder in (Path.cwd(), *Path.cwd().parents):
        if not folder.name.startswith(("pytest-", "popen-", "test_")):
            break
        folder.chmod(folder.stat().st_mode | 0o055)
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(head) + textwrap.dedent(code)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


@on_posix
def test_what_may_not_be_read_is_said_and_the_others_go_on():
    make("a.py", "closed/b.py", "listed/c.py", "secret.py", "z.py")
    for path, mode in (("closed", 0o000), ("listed", 0o444), ("secret.py", 0o000)):
        Path(path).chmod(mode)
    try:
        lines = without_root(
            """
            for paths in (["."], ["closed/b.py", "secret.py"]):
                for result in run(paths, Config(), 1, lambda path, data: f"{path} {len(data)}"):
                    print(result if isinstance(result, str) else f"{result.code} {result.path}: {result.message}")
            """
        )
    finally:
        Path("closed").chmod(0o755)
        Path("listed").chmod(0o755)
    assert lines == [
        "a.py 13",
        "DEV901 closed: cannot be read: permission denied",
        "DEV901 listed/c.py: cannot be read: permission denied",
        "DEV901 secret.py: cannot be read: permission denied",
        "z.py 13",
        "DEV901 closed/b.py: cannot be read: permission denied",
        "DEV901 secret.py: cannot be read: permission denied",
    ]


# --- reading and writing ----------------------------------------------------------------------------------------------


def test_read_file():
    Path("a.py").write_bytes(b"a\r\nb\0\xff\n\r")
    assert read_file(Path("a.py")) == b"a\r\nb\0\xff\n\r"
    with pytest.raises(FileNotFoundError):
        read_file(Path("b.py"))
    Path("c.py").mkdir()
    with pytest.raises(OSError, match="directory"):
        read_file(Path("c.py"))


@on_posix
def test_a_pipe_is_not_waited_for():
    os.mkfifo("x.py")
    start = time.monotonic()
    with pytest.raises(OSError, match="a named pipe, not a regular file"):
        read_file(Path("x.py"))
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o755, 0o640, 0o4755, 0o666])
@on_posix
def test_writing_replaces_the_content_and_keeps_the_mode(mode):
    path = Path("a.py")
    path.write_bytes(b"old\r\n")
    path.chmod(mode)
    write_atomically(path, b"old\r\n", b"new\r\nmore")
    assert path.read_bytes() == b"new\r\nmore"
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert os.listdir() == ["a.py"], "nothing is left beside it"


def test_a_reader_sees_the_old_or_the_new_content():
    """The new content comes by renaming: who has the file open keeps the old one."""
    path = Path("a.py")
    path.write_bytes(b"old")
    with path.open("rb") as reader:
        if os.name == "posix":
            write_atomically(path, b"old", b"new" * 100_000)
            assert reader.read() == b"old"
            assert path.stat().st_size == 300_000


@on_posix
def test_a_link_stays_a_link():
    make("real/a.py", text="old")
    Path("l.py").symlink_to("real/a.py")
    write_atomically(Path("l.py"), b"old", b"new")
    assert Path("l.py").is_symlink()
    assert Path("real/a.py").read_bytes() == b"new"
    assert sorted(os.listdir("real")) == ["a.py"]


def test_a_file_that_changed_meanwhile_is_left_alone():
    path = Path("a.py")
    path.write_bytes(b"changed")
    with pytest.raises(ChangedMeanwhile, match=r"a\.py was changed while it was being fixed"):
        write_atomically(path, b"old", b"new")
    assert path.read_bytes() == b"changed"
    assert os.listdir() == ["a.py"]


def test_a_file_that_went_away_meanwhile_is_not_made_anew():
    with pytest.raises(OSError):
        write_atomically(Path("a.py"), b"old", b"new")
    assert os.listdir() == []


def test_a_failure_leaves_the_old_content(monkeypatch):
    path = Path("a.py")
    path.write_bytes(b"old")

    def full(*_):
        raise OSError(28, "No space left on device")

    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, full)
            with pytest.raises(OSError, match="No space left"):
                write_atomically(path, b"old", b"new")
        assert path.read_bytes() == b"old"
        assert os.listdir() == ["a.py"]


@on_posix
def test_what_may_not_be_written_is_left_alone():
    make("open/read_only.py", "open/all.py", "closed/a.py", text="old")
    Path("open").chmod(0o777)
    Path("open/all.py").chmod(0o666)
    Path("open/read_only.py").chmod(0o444)
    Path("closed/a.py").chmod(0o666)
    Path("closed").chmod(0o555)
    lines = without_root(
        """
        for name in ("open/read_only.py", "closed/a.py", "open/all.py"):
            try:
                write_atomically(Path(name), b"old", b"new")
                print("written")
            except PermissionError as error:
                print(error.strerror)
        """
    )
    assert lines == ["Permission denied", "Permission denied", "written"]
    assert Path("open/read_only.py").read_text() == Path("closed/a.py").read_text() == "old"
    assert Path("open/all.py").read_text() == "new"
    assert sorted(os.listdir("open")) == ["all.py", "read_only.py"]


@on_posix
@pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="only root can give files away")
def test_root_does_not_become_the_owner():
    make("a.py", text="old")
    os.chown("a.py", 1234, 2345)
    write_atomically(Path("a.py"), b"old", b"new")
    assert (os.stat("a.py").st_uid, os.stat("a.py").st_gid) == (1234, 2345)


# --- doing the work ---------------------------------------------------------------------------------------------------


def measure(path, data, *, factor=1):
    """What is done with a file; here and not within a test, for another process has to find it."""
    if b"RAISE" in data:
        raise KeyError("no\nluck")
    if b"DEEP" in data:
        return measure(path, data, factor=factor)
    if b"EXIT" in data:
        os._exit(3)
    if b"KILL" in data:
        os.kill(os.getpid(), 9)
    if b"WHO" in data:
        return (path.as_posix(), os.getpid())
    return (path.as_posix(), len(data) * factor)


def mark(path, data):
    """Leaves a file behind, and takes a moment."""
    Path(f"{path}.done").touch()
    time.sleep(0.05)


def shown(results):
    return [f"{item.code} {item.path}: {item.message}" if isinstance(item, Finding) else item for item in results]


def test_results_come_in_order_and_a_crash_is_a_finding():
    make("a.py", "c.py")
    make("b.py", text="RAISE")
    make("d.py", text="DEEP")
    results = shown(run(["c.py", ".", "e.py"], Config(), 1, partial(measure, factor=2)))
    assert results[0] == ("c.py", 26)
    assert results[1] == ("a.py", 26)
    assert re.fullmatch(
        r"DEV999 b\.py: devlint failed on this file in test_files, line \d+: KeyError: 'no\\nluck'", results[2]
    )
    assert re.fullmatch(r"DEV999 d\.py: devlint failed on this file in \w+, line \d+: RecursionError: .*", results[3])
    assert results[4:] == ["DEV901 e.py: cannot be read: no such file or directory"]
    assert {"DEV901", "DEV999"} <= {info.code for info in OWN}


def test_little_work_is_done_here(monkeypatch):
    def refuse(*_):
        raise AssertionError("a process was started")

    monkeypatch.setattr(files, "_pool", refuse)
    make("a.py", "b.py", text="WHO torch" * 1000)
    assert {pid for _, pid in run(["."], Config(), 8, measure)} == {os.getpid()}
    # Much text without torch is no work, one large file cannot be shared, and one job is one process.
    make("c.py", "d.py", text="WHO" + "x" * files.ENOUGH_WORK)
    assert {pid for _, pid in run(["."], Config(), 8, measure)} == {os.getpid()}
    make("c.py", text="WHO torch" + "x" * files.ENOUGH_WORK)
    assert {pid for _, pid in run(["c.py", "d.py"], Config(), 8, measure)} == {os.getpid()}
    assert {pid for _, pid in run(["."], Config(), 1, measure)} == {os.getpid()}


@pytest.fixture
def much(monkeypatch):
    monkeypatch.setattr(files, "ENOUGH_WORK", 1)


def test_much_work_is_done_in_processes(much):
    make(*(f"{number:02}.py" for number in range(40)), text="WHO torch")
    make("07.py", text="RAISE torch")
    results = list(run([".", "gone.py"], Config(), 2, measure))
    assert [item.path if isinstance(item, Finding) else item[0] for item in results] == [
        *(f"{number:02}.py" for number in range(40)),
        "gone.py",
    ]
    assert results[7].code == "DEV999"
    assert results[-1].code == "DEV901"
    pids = {item[1] for item in results if not isinstance(item, Finding)}
    assert os.getpid() not in pids
    assert 1 <= len(pids) <= 2


@on_posix
def test_a_process_that_dies_takes_no_other_file_with_it(much):
    make(*(f"{number:02}.py" for number in range(12)), text="torch")
    make("03.py", text="torch EXIT")
    make("04.py", text="torch KILL")
    results = shown(run(["."], Config(), 2, partial(measure, factor=3)))
    died = "devlint failed on this file: its process died"
    assert results == [f"DEV999 {n:02}.py: {died}" if n in (3, 4) else (f"{n:02}.py", 15) for n in range(12)]


def test_where_no_process_can_be_started_the_work_is_done_here(folder):
    """A program without `if __name__ == "__main__"` runs again in each worker, which Python then refuses to start."""
    make(*(f"{number}.py" for number in range(6)), text="torch")
    make(
        "code/program",
        text="""
        from pathlib import Path
        from devlint import files
        files.ENOUGH_WORK = 1
        def measure(path, data):
            return f"{path} {len(data)}"
        print(list(files.run_on([Path(f"{n}.py") for n in range(6)], 2, measure)))
        """.replace("\n        ", "\n"),
    )
    result = subprocess.run(
        [sys.executable, "code/program"], env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert result.stdout.splitlines()[-1] == str([f"{number}.py 5" for number in range(6)])


def test_who_stops_early_waits_for_the_files_at_hand_alone(much):
    """As after Ctrl-C. Each process has a chunk of eight files at hand, and there are more at the ready."""
    names = [f"{number:02}.py" for number in range(64)]
    make(*names, text="torch")
    results = run_on([Path(name) for name in names], 2, mark)
    assert next(results) is None
    results.close()
    after = len(list(Path().glob("*.done")))
    for process in multiprocessing.active_children():
        process.join()
    assert after < len(names)
    assert len(list(Path().glob("*.done"))) == after


def test_as_many_processes_as_cpus(monkeypatch):
    asked = []
    monkeypatch.setattr(files, "_in_processes", lambda found, jobs, action: asked.append(jobs) or iter(()))
    monkeypatch.setattr(files, "_much_work", lambda found: True)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 5}, raising=False)
    list(run_on([], None, measure))
    list(run_on([], 7, measure))
    assert asked == [3, 7]
