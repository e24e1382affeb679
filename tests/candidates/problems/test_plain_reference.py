"""References that come out of a sandbox call aten ops on their arguments, or are refused."""

import pytest

from candidates.problems.plain_reference import require_plain


@pytest.mark.parametrize(
    "body",
    [
        "return torch.nn.functional.linear(x, w) * 2.5 + -x[:, 1:3]",
        "return [x.pow(2).mean([-1], True).to(torch.float32), torch.ops.aten.numpy_T.default(w)]",
        "y = torch.where(x.gt(0), x, float('-inf')).reshape(x.shape[0] * 2, -1)\n    return y, w",
    ],
)
def test_passes_what_the_exporter_writes(body: str) -> None:
    require_plain(f"def reference(x, w):\n    {body}\n")


@pytest.mark.parametrize(
    "source",
    [
        "import os",
        "def reference(x):\n    import os\n    return x",
        "def reference(x):\n    return open('/etc/passwd')",
        "def reference(x):\n    return eval('1')",
        "def reference(x):\n    return torch.load('file')",
        "def reference(x):\n    return torch.save(x, 'file')",
        "def reference(x):\n    return x.save('file')",
        "def reference(x):\n    return torch.from_file('file')",
        "def reference(x):\n    return torch.ops.aten.from_file.default('file')",
        "def reference(x):\n    return torch.serialization.os.system('true')",
        "def reference(x):\n    return torch.hub.relu(x)",
        "def reference(x):\n    return x.numpy().tofile('file')",
        "def reference(x):\n    return x.__class__",
        "def reference(x):\n    return [y for y in x]",
        "def reference(x):\n    return (lambda: x)()",
        "def reference(x=print()):\n    return x",
        "def reference(x: print()):\n    return x",
        "@print\ndef reference(x):\n    return x",
        "def reference(x):\n    return x\nprint()",
        "def reference(x):\n    torch.relu = x\n    return x",
        "def reference(x):\n    return getattr(x, 'shape')",
        "def reference(x):\n    return f'{x}'",
        "def reference(x):\n    while True: pass",
        "def reference(",
        "",
    ],
)
def test_refuses_anything_else(source: str) -> None:
    with pytest.raises(ValueError, match="reference"):
        require_plain(source)
