"""The example of multiple choice in docs/own_task.md: its data, and the task of its flags."""

import collections
import pathlib
import re
import shlex

from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.vocabulary import load_vocabulary
from finetune.config.finetuning import FinetuningConfig
from finetune.config.task_spec_parser import KEYS, spec_from_flags
from finetune.data.features import DataReport
from finetune.tasks.registry import make_custom_task

ROOT = pathlib.Path(__file__).parents[2]


def test_the_example_makes_the_task_that_it_trains(tmp_path, monkeypatch, demo_vocab_file):
    page = (ROOT / "docs" / "own_task.md").read_text(encoding="utf-8")
    section = page.partition("\n## Multiple choice\n")[2].partition("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    (command,) = re.findall(r"```bash\n(.*?)```", section, re.DOTALL)
    for folder in ("demo", "my_data"):
        (tmp_path / folder).mkdir()
    (tmp_path / "demo" / "router").symlink_to(ROOT / "demo" / "router")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "own_task.md", "exec"), {})

    words = shlex.split(command.replace("\\\n", " "))[2:]
    flags = {
        name.removeprefix("--").replace("-", "_"): value
        for name, value in zip(words[::2], words[1::2], strict=True)
    }
    own = {name: value for name, value in flags.items() if name.startswith("own_task_")}
    config = FinetuningConfig.create(
        data_dir="my_data",
        model_name="quickstart",
        task_names=(flags["task_names"],),
        max_seq_length=int(flags["max_seq_length"]),
        vocab_file=str(demo_vocab_file),
        **own,
    )
    spec = spec_from_flags(own, flags["task_names"])
    tokenizer = CachedTokenizer(load_vocabulary(demo_vocab_file))
    task = make_custom_task(config, spec, tokenizer)
    assert task.labels == ("0", "1", "2")
    report = DataReport(task.name, "train")
    train, dev = (task.load(split, report) for split in ("train", "dev"))
    assert (len(train), len(dev)) == (270, 30)
    rows = task.featurize(train, is_training=True, report=report)
    assert len(rows) == 270
    # Replies are kept whole, and the right one is in every position.
    assert all(len(row["input_ids/2"]) <= 48 for row in rows)
    positions = collections.Counter(example.label for example in train + dev)
    assert min(positions.values()) > 80


def test_every_key_of_a_description_is_on_the_page():
    page = (ROOT / "docs" / "own_task.md").read_text(encoding="utf-8")
    assert [key for key in KEYS if f'"{key}"' not in page and f"`{key}`" not in page] == []
