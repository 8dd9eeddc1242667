"""DEV804: deprecated names of mixed precision become those of torch.amp, arguments in their right places."""

from __future__ import annotations

import inspect
import textwrap

import pytest
import torch
from checks.helpers import check, findings, fixed

from devlint.finding import Applicability

CALLS = [
    # (old call after `import torch`, new one)
    ("torch.cuda.amp.autocast()", 'torch.amp.autocast("cuda")'),
    ("torch.cuda.amp.autocast(flag)", 'torch.amp.autocast("cuda", enabled=flag)'),
    ("torch.cuda.amp.autocast(False)", 'torch.amp.autocast("cuda", enabled=False)'),
    ("torch.cuda.amp.autocast(enabled=flag)", 'torch.amp.autocast("cuda", enabled=flag)'),
    (
        "torch.cuda.amp.autocast(flag, torch.float16)",
        'torch.amp.autocast("cuda", enabled=flag, dtype=torch.float16)',
    ),
    (
        "torch.cuda.amp.autocast(flag, torch.float16, True)",
        'torch.amp.autocast("cuda", enabled=flag, dtype=torch.float16, cache_enabled=True)',
    ),
    (
        "torch.cuda.amp.autocast((a or b), (torch.float16))",
        'torch.amp.autocast("cuda", enabled=(a or b), dtype=(torch.float16))',
    ),
    ("torch.cuda.amp.autocast(True, dtype=d)", 'torch.amp.autocast("cuda", enabled=True, dtype=d)'),
    ("torch.cuda.amp.autocast(**options)", 'torch.amp.autocast("cuda", **options)'),
    ("torch.cuda.amp.autocast( )", 'torch.amp.autocast("cuda" )'),
    ("torch.cpu.amp.autocast(dtype=d)", 'torch.amp.autocast("cpu", dtype=d)'),
    ("torch.cuda.amp.autocast_mode.autocast(flag)", 'torch.amp.autocast("cuda", enabled=flag)'),
    ("torch.cuda.amp.GradScaler()", 'torch.amp.GradScaler("cuda")'),
    ("torch.cuda.amp.GradScaler(2.0**8, 1.5)", 'torch.amp.GradScaler("cuda", 2.0**8, 1.5)'),
    ("torch.cuda.amp.GradScaler(enabled=e)", 'torch.amp.GradScaler("cuda", enabled=e)'),
    ("torch.cuda.amp.GradScaler(**kw)", 'torch.amp.GradScaler("cuda", **kw)'),
    ("torch.cuda.amp.GradScaler(*args, **kw)", 'torch.amp.GradScaler("cuda", *args, **kw)'),
    ("torch.cuda.amp.grad_scaler.GradScaler()", 'torch.amp.GradScaler("cuda")'),
    ("torch.cpu.amp.GradScaler()", 'torch.amp.GradScaler("cpu")'),
    ("torch.cuda.amp.custom_fwd(f)", 'torch.amp.custom_fwd(f, device_type="cuda")'),
    ("torch.cuda.amp.custom_bwd(f)", 'torch.amp.custom_bwd(f, device_type="cuda")'),
    (
        "torch.cuda.amp.custom_fwd(cast_inputs=torch.float32)",
        'torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)',
    ),
]


@pytest.mark.parametrize("old, new", CALLS)
def test_calls(old: str, new: str) -> None:
    text = f"import torch\nx = {old}\n"
    assert check(text, "DEV804") == [(2, "DEV804")]
    assert fixed(text, "DEV804") == f"import torch\nx = {new}\n"


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("old, new", [pair for pair in CALLS if "*" not in pair[0] and "(f" not in pair[0]])
def test_both_calls_bind_the_same_arguments(old: str, new: str) -> None:
    """The old classes hand on what they get; what they hand on is what the new call gives."""
    names = {"torch": torch, "flag": False, "a": True, "b": False, "d": torch.bfloat16, "e": False}
    with pytest.warns(FutureWarning):
        before = eval(old, dict(names))
    after = eval(new, dict(names))
    if isinstance(before, torch.amp.autocast):
        assert (before.device, before._enabled) == (after.device, after._enabled)
        assert before.fast_dtype == after.fast_dtype
        assert before._cache_enabled == after._cache_enabled
    elif isinstance(before, torch.amp.GradScaler):
        assert before._device == after._device
        assert before.state_dict() == after.state_dict()


def test_the_order_of_the_old_autocast_is_what_torch_says() -> None:
    old = list(inspect.signature(torch.cuda.amp.autocast.__init__).parameters)
    assert old[1:] == ["enabled", "dtype", "cache_enabled"]
    new = list(inspect.signature(torch.amp.autocast.__init__).parameters)
    assert new[1:3] == ["device_type", "dtype"]


LAYOUTS = [
    # one argument a line
    (
        """
        import torch
        c = torch.cuda.amp.autocast(
            flag,
            torch.float16,  # half
        )
        """,
        """
        import torch
        c = torch.amp.autocast(
            "cuda",
            enabled=flag,
            dtype=torch.float16,  # half
        )
        """,
    ),
    # a comment first
    (
        """
        import torch
        c = torch.cuda.amp.GradScaler(  # for half
            enabled=flag,
        )
        """,
        """
        import torch
        c = torch.amp.GradScaler("cuda",  # for half
            enabled=flag,
        )
        """,
    ),
    # the import goes, the others stay
    (
        """
        import torch
        from torch.cuda.amp import GradScaler, autocast
        from torch import nn

        with autocast():
            s = GradScaler()
        """,
        """
        import torch
        from torch import nn

        with torch.amp.autocast("cuda"):
            s = torch.amp.GradScaler("cuda")
        """,
    ),
    # one name of the import is still used
    (
        """
        import torch
        from torch.cuda.amp import GradScaler, autocast, custom_fwd

        make = custom_fwd
        with autocast():
            s = GradScaler()
        """,
        """
        import torch
        from torch.cuda.amp import custom_fwd

        make = custom_fwd
        with torch.amp.autocast("cuda"):
            s = torch.amp.GradScaler("cuda")
        """,
    ),
    (
        """
        import torch
        from torch.cuda.amp import (
            custom_fwd,
            GradScaler,
            autocast,
        )

        make = custom_fwd
        with autocast():
            s = GradScaler()
        """,
        """
        import torch
        from torch.cuda.amp import (
            custom_fwd,
        )

        make = custom_fwd
        with torch.amp.autocast("cuda"):
            s = torch.amp.GradScaler("cuda")
        """,
    ),
    # the package under other names
    (
        """
        import torch as th
        from torch.cuda import amp

        with amp.autocast():
            s: amp.GradScaler = amp.GradScaler()
        """,
        """
        import torch as th

        with th.amp.autocast("cuda"):
            s: th.amp.GradScaler = th.amp.GradScaler("cuda")
        """,
    ),
    (
        """
        import torch.cuda.amp as amp
        import torch

        s = amp.GradScaler()
        """,
        """
        import torch

        s = torch.amp.GradScaler("cuda")
        """,
    ),
    # torch itself has no name here: the import changes
    (
        """
        from torch.cuda.amp import autocast as cast

        with cast(False):
            pass
        """,
        """
        from torch.amp import autocast as cast

        with cast("cuda", enabled=False):
            pass
        """,
    ),
    (
        """
        import torch.cuda.amp as amp

        s = amp.GradScaler()
        """,
        """
        import torch.amp as amp

        s = amp.GradScaler("cuda")
        """,
    ),
    (
        """
        from torch.cuda import amp

        s = amp.GradScaler()
        """,
        """
        from torch import amp

        s = amp.GradScaler("cuda")
        """,
    ),
    (
        """
        from torch.cuda.amp import autocast, custom_fwd
        make = custom_fwd
        c = autocast()
        """,
        """
        from torch.amp import autocast
        from torch.cuda.amp import custom_fwd
        make = custom_fwd
        c = autocast("cuda")
        """,
    ),
    # in a function, in a branch, behind a comment
    (
        """
        import torch
        def f():
            from torch.cuda.amp import autocast
            with autocast():
                pass
        """,
        """
        import torch
        def f():
            with torch.amp.autocast("cuda"):
                pass
        """,
    ),
    (
        """
        import torch
        HAS_AMP = True
        try:
            from torch.cuda.amp import autocast
        except ImportError:
            HAS_AMP = False
        def f():
            with autocast():
                pass
        """,
        """
        import torch
        HAS_AMP = True
        try:
            from torch.amp import autocast
        except ImportError:
            HAS_AMP = False
        def f():
            with autocast("cuda"):
                pass
        """,
    ),
    (
        """
        import torch
        from torch.cuda.amp import autocast  # mixed precision
        c = autocast()
        """,
        """
        import torch
        from torch.amp import autocast  # mixed precision
        c = autocast("cuda")
        """,
    ),
    # decorators
    (
        """
        import torch
        @torch.cuda.amp.autocast()
        def f(x):
            return x
        class F(torch.autograd.Function):
            @staticmethod
            @torch.cuda.amp.custom_fwd
            def forward(ctx, x):
                return x
            @staticmethod
            @torch.cuda.amp.custom_bwd
            def backward(ctx, g):
                return g
        """,
        """
        import torch
        @torch.amp.autocast("cuda")
        def f(x):
            return x
        class F(torch.autograd.Function):
            @staticmethod
            @torch.amp.custom_fwd(device_type="cuda")
            def forward(ctx, x):
                return x
            @staticmethod
            @torch.amp.custom_bwd(device_type="cuda")
            def backward(ctx, g):
                return g
        """,
    ),
    # what asks for the class follows
    (
        """
        import torch
        def f(s: "int", t: torch.cuda.amp.GradScaler):
            return isinstance(t, (int, torch.cuda.amp.GradScaler))
        s = torch.cuda.amp.GradScaler()
        """,
        """
        import torch
        def f(s: "int", t: torch.amp.GradScaler):
            return isinstance(t, (int, torch.amp.GradScaler))
        s = torch.amp.GradScaler("cuda")
        """,
    ),
]


@pytest.mark.parametrize("old, new", LAYOUTS)
def test_layouts_and_imports(old: str, new: str) -> None:
    assert fixed(textwrap.dedent(old), "DEV804") == textwrap.dedent(new)


def test_line_ends_stay() -> None:
    old = "import torch\r\nfrom torch.cuda.amp import autocast\r\nc = autocast(\r\n    flag,\r\n)\r\n"
    new = 'import torch\r\nc = torch.amp.autocast(\r\n    "cuda",\r\n    enabled=flag,\r\n)\r\n'
    assert fixed(old, "DEV804") == new


KEPT = [
    # (why the import stays, text before, text after)
    (
        "named in __all__",
        'import torch\nfrom torch.cuda.amp import autocast\n__all__ = ["autocast"]\nc = autocast()\n',
        'import torch\nfrom torch.cuda.amp import autocast\n__all__ = ["autocast"]\nc = torch.amp.autocast("cuda")\n',
    ),
    (
        "marked",
        "import torch\nfrom torch.cuda.amp import autocast  # noqa: F401\nc = autocast()\n",
        'import torch\nfrom torch.cuda.amp import autocast  # noqa: F401\nc = torch.amp.autocast("cuda")\n',
    ),
    (
        "one use is silenced",
        "import torch\nfrom torch.cuda.amp import autocast\nc = autocast()\nd = autocast()  # noqa: DEV804\n",
        "import torch\nfrom torch.cuda.amp import autocast\n"
        'c = torch.amp.autocast("cuda")\nd = autocast()  # noqa: DEV804\n',
    ),
    (
        "two statements in a line",
        "import torch\nimport os; from torch.cuda.amp import autocast\nc = autocast()\n",
        'import torch\nimport os; from torch.amp import autocast\nc = autocast("cuda")\n',
    ),
]


@pytest.mark.parametrize("why, old, new", KEPT)
def test_imports_that_serve_others_stay(why: str, old: str, new: str) -> None:
    assert fixed(old, "DEV804") == new


UNFIXED = [
    ("torch.cuda.amp.autocast(*args)", "order"),
    ("torch.cuda.amp.autocast(flag, **kw)", "`**`"),
    ("torch.cuda.amp.custom_fwd(**kw)", "`device_type`"),
    ("torch.cuda.amp.custom_fwd(f, **kw)", "`device_type`"),
]


@pytest.mark.parametrize("call, reason", UNFIXED)
def test_what_cannot_be_fixed_says_why(call: str, reason: str) -> None:
    (found,) = findings(f"import torch\nx = {call}\n", "DEV804")
    assert found.fix is None and found.no_fix is not None and reason in found.no_fix


@pytest.mark.parametrize(
    "name, first",
    [("autocast()", (1, 10)), ("GradScaler()", (2, 3)), ("custom_fwd(f)", (2, 4)), ("custom_bwd(f)", (2, 4))],
)
def test_the_fix_waits_for_a_torch_that_has_the_new_name(name: str, first: tuple[int, int]) -> None:
    text = f"import torch\nx = torch.cuda.amp.{name}\n"
    before = (first[0], first[1] - 1)
    assert fixed(text, "DEV804", target_torch=before) == text
    (found,) = findings(text, "DEV804", target_torch=before)
    assert found.no_fix is not None and f"{first[0]}.{first[1]}" in found.no_fix
    assert "torch.amp." in fixed(text, "DEV804", target_torch=first)


def test_a_new_name_that_one_alias_must_wait_for_leaves_the_import() -> None:
    text = "from torch.cuda.amp import GradScaler, autocast\nc = autocast()\ns = GradScaler()\n"
    new = "from torch.amp import autocast\nfrom torch.cuda.amp import GradScaler\n"
    new += 'c = autocast("cuda")\ns = GradScaler()\n'
    assert fixed(text, "DEV804", target_torch=(2, 2)) == new


NESTED = """\
import torch
with torch.autocast("cuda", dtype=torch.bfloat16):
    with torch.cuda.amp.autocast():
        pass
    with torch.cuda.amp.autocast(dtype=torch.float16):
        pass
"""


def test_inside_another_dtype_the_fix_is_unsafe() -> None:
    one, two = findings(NESTED, "DEV804")
    assert one.fix is not None and one.fix.applicability is Applicability.UNSAFE
    assert two.fix is not None and two.fix.applicability is Applicability.SAFE


SILENT = {
    "the new names": 'c = torch.amp.autocast("cuda")\ns = torch.amp.GradScaler("cuda")',
    "the new names, on a string": "def f(d):\n    return torch.autocast(d.type), torch.autocast('cuda:0')",
    "stand-in": (
        "try:\n    from torch.cuda.amp import autocast\nexcept ImportError:\n    def autocast(): ...\nc = autocast()"
    ),
    "old after new": (
        "try:\n    from torch.amp import GradScaler\nexcept ImportError:\n    from torch.cuda.amp import GradScaler\n"
        "s = GradScaler()"
    ),
    "version branch": "s = torch.amp.GradScaler('cuda') if TORCH_2_4 else torch.cuda.amp.GradScaler(enabled=True)",
    "version branch of a comparison": (
        "if Version(torch.__version__) < Version('2.3'):\n    s = torch.cuda.amp.GradScaler()"
    ),
    "attempt": (
        "try:\n    s = torch.amp.GradScaler('cuda')\nexcept AttributeError:\n    s = torch.cuda.amp.GradScaler()"
    ),
    "asked for only": "def f(s):\n    return isinstance(s, torch.cuda.amp.GradScaler)",
    "another library": "from apex.amp import autocast, GradScaler\nc, s = autocast(), GradScaler()",
    "a shadow": "def f(torch):\n    return torch.cuda.amp.autocast()",
    "in a string": 'x = "torch.cuda.amp.autocast()"',
    "a device of unknown kind": "def f(device):\n    return torch.autocast(device)",
    "a string from a call": "def f(device):\n    return torch.autocast(device)\nf('cuda')\nf(torch.device('cuda'))",
}


@pytest.mark.parametrize("name", SILENT)
def test_silent(name: str) -> None:
    assert check(f"import torch\n{SILENT[name]}\n", "DEV804") == []


DEVICES = [
    ("d = torch.device('cuda')\nc = torch.autocast(d)", "d.type", Applicability.SAFE),
    ("def f(x: torch.Tensor):\n    return torch.autocast(x.device)", "x.device.type", Applicability.SAFE),
    ("d = torch.device('cuda')\nc = torch.autocast(d if d else d)", "(d if d else d).type", Applicability.SAFE),
    ("def f(d: torch.device):\n    return torch.autocast(device_type=d)", "d.type", Applicability.SAFE),
    ("c = torch.amp.autocast(torch.device('cpu'), enabled=False)", "torch.device('cpu').type", Applicability.SAFE),
    ("def f(d):\n    return torch.autocast(d)\nf(torch.device('cpu'))", "d.type", Applicability.UNSAFE),
    ("def f(n, d):\n    return torch.autocast(d)\nf(1, d=torch.device('cpu'))", "d.type", Applicability.UNSAFE),
]


@pytest.mark.parametrize("code, written, applicability", DEVICES)
def test_a_device_gives_its_type(code: str, written: str, applicability: Applicability) -> None:
    text = f"import torch\n{code}\n"
    (found,) = findings(text, "DEV804")
    assert found.fix is not None and found.fix.applicability is applicability
    new = fixed(text, "DEV804", unsafe=True)
    assert f"({written}" in new or f"={written}" in new
    assert check(new, "DEV804") == []


def test_torch_refuses_a_device() -> None:
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        torch.autocast(torch.device("cpu"))  # type: ignore[arg-type]  # noqa: DEV804


def test_a_name_bound_by_an_assignment_is_reported_without_a_fix() -> None:
    text = "import torch\nautocast = torch.cuda.amp.autocast\nwith autocast():\n    pass\n"
    (found,) = findings(text, "DEV804")
    assert (found.start.row, found.fix) == (3, None)


def test_an_init_file_keeps_what_it_hands_on() -> None:
    from devlint.config import Config
    from devlint.engine import fix_bytes

    data = b"import torch\nfrom torch.cuda.amp import autocast\nc = autocast()\n"
    result = fix_bytes(data, "pkg/__init__.py", Config(select=("DEV804",)))
    assert result.data == b'import torch\nfrom torch.cuda.amp import autocast\nc = torch.amp.autocast("cuda")\n'
