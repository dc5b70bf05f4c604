"""The examples of docs/api.md, as doctests in a copy of what they read."""

import doctest
import pathlib
import re

from electra_tf.config import choices
from finetune.config import task_kinds

ROOT = pathlib.Path(__file__).parents[1]
PAGE = ROOT / "docs" / "api.md"
MODULE = "own_objective"


def test_the_examples(tmp_path, monkeypatch):
    text = PAGE.read_text(encoding="utf-8")
    (tmp_path / "demo").symlink_to(ROOT / "demo")
    (module,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / f"{MODULE}.py").write_text(module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    # What the page adds is removed after the test.
    monkeypatch.setitem(choices.OBJECTIVES, "text_detection", f"{MODULE}:TextDetection")
    monkeypatch.setattr(task_kinds, "KINDS", task_kinds.KINDS)

    examples = doctest.DocTestParser().get_doctest(text, {}, "docs/api.md", str(PAGE), 0)
    assert len(examples.examples) > 50
    found: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    results = runner.run(examples, out=found.append)
    assert results.failed == 0, "".join(found)
