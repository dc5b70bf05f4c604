"""The recipes of fine-tuning, the tasks they describe, and the tickets and topics they read."""

import collections
import csv
import dataclasses
import json
import pathlib

import pytest

from finetune.config.finetuning import FinetuningConfig

ROOT = pathlib.Path(__file__).parents[2]
RECIPES = {"topics": "topics", "text_router": "router", "nsmc": "nsmc", "korsts": "korsts"}


@pytest.mark.parametrize(("recipe", "task"), RECIPES.items())
def test_recipe(recipe, task):
    lines = (ROOT / "recipes" / f"{recipe}.flags").read_text(encoding="utf-8").splitlines()
    given = dict(
        line.removeprefix("--").split("=", 1) for line in lines if line.startswith("--")
    )
    assert given.keys() <= {field.name for field in dataclasses.fields(FinetuningConfig)}
    assert given["task_names"] == task
    assert json.loads((ROOT / given["task_spec"]).read_text())["name"] == task
    command = next(line for line in lines if line.startswith("# Command:"))
    assert "run_finetuning.py --data-dir DATA --model-name MODEL" in command
    assert f"--flagfile recipes/{recipe}.flags" in command
    for word in ("# Hardware:", "# Time:", "# Score:"):
        assert any(line.startswith(word) for line in lines)


def test_tickets_are_what_the_task_says():
    path = ROOT / "recipes" / "tasks" / "router.json"
    spec = json.loads(path.read_text())
    tickets = path.parent / spec["files"]["train"]
    with tickets.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    text, label = spec["columns"]["text_a"], spec["columns"]["label"]
    assert collections.Counter(row[label] for row in rows) == dict.fromkeys(
        ("billing", "technical", "account", "shipping", "feedback"), 60
    )
    texts = [row[text] for row in rows]
    assert len({t.lower() for t in texts}) == 300
    assert all(4 <= len(t.split()) <= 40 for t in texts)
    # Quotes and commas have come through.
    assert sum('"' in t for t in texts) > 40
    assert sum("," in t for t in texts) > 150
    assert not any(None in row or None in row.values() for row in rows)


def read_topics(split: str) -> list[dict[str, str]]:
    path = ROOT / "recipes" / "tasks" / "topics.json"
    spec = json.loads(path.read_text())
    with (path.parent / spec["files"][split]).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_few_topics_are_labeled():
    counts = collections.Counter(row["label"] for row in read_topics("train"))
    assert len(counts) == 8
    assert set(counts.values()) == {10}
    for split, number in (("dev", 233), ("heldout", 468)):
        rows = read_topics(split)
        assert len(rows) == number
        assert {row["label"] for row in rows} == counts.keys()


def test_no_country_is_in_two_parts():
    splits = {split: read_topics(split) for split in ("train", "dev", "heldout")}
    countries = {split: {row["country"] for row in rows} for split, rows in splits.items()}
    assert len(countries["dev"]) == 30
    assert len(countries["heldout"]) == 60
    assert not countries["dev"] & countries["heldout"]
    assert not countries["train"] & (countries["dev"] | countries["heldout"])


def test_held_out_topics_are_not_in_the_text_to_pretrain_on():
    folder = ROOT / "demo" / "factbook"
    lines = set((folder / "corpus/world_factbook.txt").read_text(encoding="utf-8").split("\n"))
    assert (
        not {row["text"] for split in ("dev", "heldout") for row in read_topics(split)} & lines
    )
    assert {row["text"] for row in read_topics("train")} <= lines
    held_out = (folder / "corpus_heldout/world_factbook.txt").read_text(encoding="utf-8")
    assert {row["text"] for row in read_topics("dev")} <= set(held_out.split("\n"))
