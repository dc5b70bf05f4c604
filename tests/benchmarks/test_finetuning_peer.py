"""benchmarks.finetuning_peer, with a PyTorch that knows the labels and our results there."""

import json
import pathlib
import sys

from finetune.results.result_files import write_results
from finetune.results.summary import OK, TrialResult
from tests.in_process import run_program

ROOT = pathlib.Path(__file__).parents[2]
# The first seed gets everything right; the others, all but the first row.
_PYTORCH = f"""#!{sys.executable}
import json, sys
import numpy as np
if sys.argv[1] == "-c":
    print(json.dumps({{"torch": "1", "transformers": "1"}}))
    sys.exit()
settings = json.load(open(sys.argv[2]))
dev = np.load(settings["dev"])
assert dev["lengths"].sum() == len(dev["ids"]) == len(dev["segments"])
assert dev["ids"].max() < 8
seeds = []
for k in range(len(settings["seeds"])):
    labels = dev["labels"].copy()
    labels[0] = labels[0] if k == 0 else 1 - labels[0]
    seeds.append(np.eye(settings["num_outputs"], dtype=np.float32)[labels])
np.save(settings["outputs"], np.stack(seeds))
"""


def test_scores_of_both_sides_are_compared(tmp_path, monkeypatch, capfd):
    tasks = tmp_path / "data" / "finetuning_data" / "sst"
    tasks.mkdir(parents=True)
    for split in ("train", "dev"):
        rows = "sentence\tlabel\n" + "a fine day\t1\nno day\t0\n" * 5
        (tasks / f"{split}.tsv").write_text(rows)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "day", "no"]
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(words) + "\n")
    python = tmp_path / "python"
    python.write_text(_PYTORCH)
    python.chmod(0o755)
    output = tmp_path / "output"
    (output / "huggingface" / "discriminator").mkdir(parents=True)
    trials = [
        TrialResult(
            trial=i + 1,
            seed=42 + i,
            status=OK,
            reason=None,
            metrics={"sst/dev": {"accuracy": 80.0 + 10 * i, "loss": 0.7}},
            main={"sst/dev": "accuracy"},
        )
        for i in range(3)
    ]
    results = output / "sst" / "electra_tf" / "results"
    write_results(trials, model_name="tiny", tasks_label="sst", results_dir=str(results))

    def run(*more: str):
        command = [
            "-m",
            "benchmarks.finetuning_peer",
            "--tasks=sst",
            f"--torch_python={python}",
            f"--output_dir={output}",
            f"--data_dir={tmp_path / 'data'}",
            "--model_name=tiny",
            f"--vocab_file={vocabulary}",
            "--vocab_size=8",
            "--num_trials=3",
            *more,
        ]
        return run_program(command, ROOT, monkeypatch, capfd)

    done = run()
    assert done.returncode == 0, done.stderr
    assert "| sst | 90.00 ± 10.00 (3) | 93.33 ± 5.77 (3) | -3.33 [" in done.stdout
    settings = json.loads((output / "sst" / "huggingface_settings.json").read_text())
    assert settings["huggingface"] == str(output / "huggingface" / "discriminator")
    assert (settings["num_outputs"], settings["seeds"]) == (2, [42, 43, 44])
    # PyTorch's outputs of other settings are not taken for those of these.
    done = run("--learning_rate=1e-5")
    assert done.returncode == 1
    assert "huggingface_settings.json has other settings" in done.stderr
