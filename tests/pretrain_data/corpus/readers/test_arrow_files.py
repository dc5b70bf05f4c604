"""Tests of Arrow files and of datasets that the package `datasets` has saved."""

import json
import re

import pyarrow
import pytest

from electra_tf.util.errors import UserError
from pretrain_data.corpus import blocks as blocks_module
from pretrain_data.corpus.formats import FormatOptions
from pretrain_data.corpus.inputs import find_corpus, find_inputs
from pretrain_data.corpus.partition import divide
from tests.pretrain_data.corpus.test_inputs import DOCUMENTS, documents

TEXTS = [text for text in DOCUMENTS if text]


def write_arrow(path, texts=DOCUMENTS, rows=3, new=pyarrow.ipc.new_stream, kind=None) -> None:
    table = pyarrow.table({"id": list(range(len(texts))), "text": pyarrow.array(texts, kind)})
    path.parent.mkdir(exist_ok=True, parents=True)
    with new(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)


def save_dataset(folder, texts=DOCUMENTS) -> None:
    """Writes what `Dataset.save_to_disk` writes."""
    names = ["data-00000-of-00002.arrow", "data-00001-of-00002.arrow"]
    for name, share in zip(names, (texts[:5], texts[5:]), strict=True):
        write_arrow(folder / name, share)
    files = [{"filename": name} for name in names]
    (folder / "state.json").write_text(json.dumps({"_data_files": files, "_split": None}))
    (folder / "dataset_info.json").write_text("{}")


@pytest.mark.parametrize("new", [pyarrow.ipc.new_stream, pyarrow.ipc.new_file])
@pytest.mark.parametrize("kind", ["string", "large_string", "dictionary"])
def test_both_arrow_formats_are_read_and_divided(tmp_path, monkeypatch, new, kind):
    if kind == "dictionary":
        kind = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    path = tmp_path / "a.arrow"
    write_arrow(path, [*DOCUMENTS, None], new=new, kind=kind)
    parts = find_inputs([str(path)]).parts
    assert documents(parts) == TEXTS
    monkeypatch.setattr(blocks_module, "BLOCK_BYTES", 4)
    blocks = list(parts[0].read())
    assert sum(block.num_nulls for block in blocks) == 1
    assert sum(block.num_disk_bytes for block in blocks) == parts[0].num_disk_bytes > 0
    assert [block.ends_file for block in blocks] == [False] * (len(blocks) - 1) + [True]
    shares = divide(parts, 3, split_at_documents=True)
    assert len(shares) == 3
    assert [text for share in shares for text in documents(share)] == TEXTS


def test_a_saved_dataset_is_read_without_its_cache(tmp_path):
    save_dataset(tmp_path / "saved")
    write_arrow(tmp_path / "saved/cache-0123.arrow", ["cached"])
    corpus = find_inputs([str(tmp_path / "saved")])
    assert documents(corpus.parts) == TEXTS
    assert "cache-0123.arrow" in [path.name for path in corpus.ignored]
    write_arrow(tmp_path / "others/a.arrow", ["one", "two"])
    (tmp_path / "others/state.json").write_text('{"step": 3}')
    assert documents(find_inputs([str(tmp_path / "others")]).parts) == ["one", "two"]


def test_one_split_of_several_is_named(tmp_path):
    for split in ("train", "test"):
        save_dataset(tmp_path / "saved" / split)
    (tmp_path / "saved/dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    message = f"--input: {tmp_path}/saved is a dataset of the splits train, test; name those"
    with pytest.raises(UserError, match=re.escape(message)):
        find_inputs([str(tmp_path)])
    assert documents(find_inputs([str(tmp_path / "saved/train")]).parts) == TEXTS
    (tmp_path / "a.txt").write_text("text\n")
    assert documents(find_corpus(tmp_path).parts) == ["text"]


def test_bad_arrow_files_are_named(tmp_path):
    path = tmp_path / "a.arrow"
    for content, message in [
        (b"", "a.arrow (--input) is not a complete Arrow file: no end"),
        (b"nothing of the kind", "is not a complete Arrow file: no end"),
        (b"ARROW1 not really", "is not a complete Arrow file: "),
        (b"ARROW2 no\xff\xff\xff\xff\0\0\0\0", "is not a complete Arrow file: "),
    ]:
        path.write_bytes(content)
        with pytest.raises(UserError, match=re.escape(message)) as error:
            find_inputs([str(path)])
        assert "\n" not in str(error.value)
    write_arrow(path)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(UserError, match="no end"):
        find_inputs([str(path)])
    write_arrow(path)
    with pytest.raises(UserError, match=r"no column 'txt' \(--text_column\).* 'text'\?"):
        find_inputs([str(path)], FormatOptions(text_column="txt"))
    with pytest.raises(UserError, match="must be text, and has the type int64"):
        find_inputs([str(path)], FormatOptions(text_column="id"))
    (tmp_path / "state.json").write_text("{")
    with pytest.raises(UserError, match=r"state\.json cannot be read as JSON"):
        find_inputs([str(tmp_path)])


def test_what_the_package_saves_is_read(tmp_path):
    datasets = pytest.importorskip("datasets", reason="needs the package datasets")
    datasets.disable_progress_bars()
    dataset = datasets.Dataset.from_dict({"text": [*DOCUMENTS, None]})
    dataset.save_to_disk(tmp_path / "one", num_shards=2)
    assert documents(find_inputs([str(tmp_path / "one")]).parts) == TEXTS
    datasets.DatasetDict({"train": dataset}).save_to_disk(tmp_path / "two")
    with pytest.raises(UserError, match="is a dataset of the splits train; name"):
        find_inputs([str(tmp_path / "two")])
    dataset.select([3, 1]).save_to_disk(tmp_path / "some")
    texts = documents(find_inputs([str(tmp_path / "some")]).parts)
    assert texts == [DOCUMENTS[3], DOCUMENTS[1]]
