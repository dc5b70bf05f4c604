"""inspect_dataset.py: its flags, its outputs, and its page in headless Chromium."""

import json
import re
import shutil
import sys

import pytest
from absl import flags as absl_flags

from electra_tf.util.console import use_color
from electra_tf.util.errors import UserError
from flags import inspection, inspection_run
from flags.command_line import parsing
from pretrain_data.build.dataset import CorpusBuildConfig, build_pretraining_data
from tests.browser import CHROMIUM, browse
from tests.conftest import ROOT


def parse(*arguments: str) -> inspection.InspectionConfig:
    flag_values = absl_flags.FlagValues()
    inspection.define_flags(flag_values)
    parsing.parse(["program", *arguments], None, flag_values)
    return inspection.config_from_flags(flag_values)


@pytest.fixture
def files(tiny_data) -> str:
    return f"--pretrain_tfrecords={tiny_data}/pretrain_tfrecords/pretrain_data.tfrecord*"


@pytest.fixture
def page(files, tmp_path):
    path = tmp_path / "page.html"
    inspection_run.run(parse(files, "--examples=2", f"--html={path}"))
    return path


def test_record_files_alone(files, tmp_path, capsys):
    # The vocabulary is found beside the folder of the records, the length in the records.
    inspection_run.run(parse(files, "--examples=3", "--mask_prob=0.5", "--json=-"))
    report = json.loads(capsys.readouterr().out)
    assert [each["seq_length"] for each in report["files"]] == [16, 16]
    assert report["total"]["records"] == 50
    assert report["masking"] == {"masking": "token", "mask_prob": 0.5}
    assert len(report["examples"]) == 3
    for example in report["examples"]:
        predicted = [item for item in example if item["state"] in ("masked", "kept")]
        assert len(predicted) == round(len(example) / 2)
    inspection_run.run(parse(files, "--examples=1", f"--json={tmp_path}/numbers.json"))
    printed = capsys.readouterr().out
    assert json.loads((tmp_path / "numbers.json").read_text())["total"] == report["total"]
    assert "| all | 50 |" in printed
    assert "[CLS]" in printed
    assert "\x1b" not in printed


def test_the_last_shards_may_be_empty(tiny_data, tmp_path, capsys):
    # Those of the authors' builder, which writes 1,000 files, in alphabetical order.
    for path in (tiny_data / "pretrain_tfrecords").glob("pretrain_data.tfrecord-*"):
        shutil.copy(path, tmp_path / path.name.replace("-of-2", "-of-4"))
    for i in (2, 3):
        (tmp_path / f"pretrain_data.tfrecord-{i}-of-4").touch()
    arguments = [f"--pretrain_tfrecords={tmp_path}/*", f"--vocab_file={tiny_data}/vocab.txt"]
    inspection_run.run(parse(*arguments, "--max-seq-length=16"))
    output = capsys.readouterr()
    assert "| all | 50 |" in output.out
    assert "2 of 4 files are empty, such as" in output.err


def test_a_run_has_its_settings(tiny_data, tmp_path, make_config):
    words = str(tmp_path / "words.txt")
    config = make_config(mask_prob=0.3, masking="whole_word", seed=5, word_list=words)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(
        json.dumps({"hyperparameters": json.loads(config.to_json()), "variables": {}})
    )
    run = (f"--data-dir={tiny_data}", "--model-name=tiny", f"--model_dir={folder}")
    model = parse(*run).model(32)
    assert (model.mask_prob, model.masking, model.seed) == (0.3, "whole_word", 5)
    assert model.word_list == words
    assert parse(*run, "--masking=token").model(32).word_list is None
    assert (model.max_seq_length, model.vocab_size) == (16, 40)
    assert model.max_predictions_per_seq == config.max_predictions_per_seq
    assert parse(*run, "--mask_prob=0.2").model(32).mask_prob == 0.2


def test_bad_input_is_refused(tiny_data, files, tmp_path):
    with pytest.raises(UserError, match=r"Pass --data_dir.* or --pretrain_tfrecords"):
        parse()
    with pytest.raises(UserError, match="--verify does not describe the records"):
        parse(files, "--verify", "--examples=1")
    with pytest.raises(UserError, match=r"--verify .*: remove --max_records, --top_tokens$"):
        parse(files, "--verify", "--top_tokens=20", "--max_records=3")
    with pytest.raises(UserError, match=r"--verify .*: remove --skip_bad_records$"):
        parse(files, "--verify", "--skip_bad_records")
    with pytest.raises(UserError, match="--json is empty: pass a path"):
        parse(files, "--json=")
    with pytest.raises(UserError, match=rf"--json={re.escape(str(tmp_path))} is a folder"):
        parse(files, f"--json={tmp_path}")
    with pytest.raises(UserError, match=r"--html=.*: no such folder"):
        parse(files, f"--html={tmp_path}/none/page.html")
    vocab_file = parse(files).settings["vocab_file"]
    with pytest.raises(UserError, match=r"--json=.* is the file that --vocab_file reads"):
        parse(files, f"--json={vocab_file}")
    page = tmp_path / "page"
    with pytest.raises(UserError, match=r"--html=.*/page is also the file of --json"):
        parse(files, f"--json={page}", f"--html={tmp_path}/./page")
    record_file = files.partition("=")[2].replace("*", "-0-of-2")
    other_name = tmp_path / "records"
    shutil.copy(record_file, other_name)
    given = (f"--pretrain_tfrecords={other_name}", f"--vocab_file={vocab_file}")
    for flag in ("--json", "--html"):
        with pytest.raises(UserError, match=rf"{flag}=.* is a file of a model or of records"):
            parse(files, f"{flag}={record_file}")
        with pytest.raises(UserError, match=rf"{flag}=.* file that --pretrain_tfrecords reads"):
            inspection_run.run(parse(*given, f"{flag}={other_name}"))
    with pytest.raises(UserError, match=r"none.txt \(--vocab_file\) does not exist"):
        parse(files, f"--vocab_file={tmp_path}/none.txt")
    with pytest.raises(UserError, match="--max_seq_length is 32, but the records have 16"):
        inspection_run.run(parse(files, "--max_seq_length=32"))
    with pytest.raises(UserError, match=r"No file matches .* \(--pretrain_tfrecords\)"):
        inspection_run.run(parse(f"--pretrain_tfrecords={tiny_data}/x/*"))


def test_verify(files, capsys):
    inspection_run.run(parse(files, "--verify"))
    printed = capsys.readouterr().out
    assert "2 files with 50 records" in printed
    assert "2 of them have no manifest" in printed


def test_verify_names_the_held_out_records_that_were_not_read(tmp_path, capsys):
    (tmp_path / "text.txt").write_text("\n\n".join(f"{i} words" for i in range(80)))
    vocab_file, folder = ROOT / "demo/vocab.txt", tmp_path / "its records"
    config = CorpusBuildConfig(
        None, vocab_file, folder, inputs=(f"{tmp_path}/text.txt",), eval_fraction=0.3
    )
    build_pretraining_data(config, print_fn=lambda message: None)
    pattern = f"{folder}/held_out/pretrain_data.tfrecord*"
    for given, names_it in ((f"{folder}/pretrain_data.tfrecord*", True), (pattern, False)):
        arguments = (f"--pretrain_tfrecords={given}", f"--vocab_file={vocab_file}")
        inspection_run.run(parse(*arguments, "--verify"))
        printed = capsys.readouterr().out
        assert "are intact" in printed
        said = f"Held-out records are verified with --pretrain_tfrecords='{pattern}'"
        assert (said in printed) == names_it


def test_color(monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert use_color(None)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not use_color(None)
    assert use_color(True)


def test_the_page_is_one_file_without_network(page):
    content = page.read_text()
    assert content.count("<svg") == 2  # no row has a second segment
    assert not re.search(r'(?:src|href)="(?!data:|#)', content)
    assert "<script" not in content
    assert content.count('<p class="example" dir="auto">') == 2
    ids = re.findall(r'\bid="([^"]+)"', content)
    assert len(ids) == len(set(ids))


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
def test_the_page_in_a_browser(page, tmp_path):
    picture = tmp_path / "page.png"
    result = browse(
        page.as_uri(),
        tmp_path / "profile",
        "--enable-logging=stderr",
        "--window-size=400,1200",
        f"--screenshot={picture}",
    )
    assert ":CONSOLE" not in result.stderr
    assert picture.stat().st_size > 5000


def test_verify_as_json_prints_nothing_else(files, capsys):
    inspection_run.run(parse(files, "--verify", "--json=-"))
    verified = json.loads(capsys.readouterr().out)["verified"]
    assert sum(each["num_records"] for each in verified) == 50
    assert [each["in_manifest"] for each in verified] == [False, False]


def test_a_vocabulary_of_another_size_is_refused(tiny_data, tmp_path):
    run = (f"--data-dir={tiny_data}", "--model-name=new", f"--model_dir={tmp_path}")
    with pytest.raises(UserError, match=r"--vocab_size is 39, but .*vocab\.txt has 40"):
        parse(*run, "--vocab_size=39")
