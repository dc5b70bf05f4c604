"""The programs beside training: corpora, conversions, exports and counts."""

from benchmarks.compare_checkouts.cases import CASE, INPUTS, Case, Command
from benchmarks.compare_checkouts.inputs import MODEL_NAME, PRETRAINING

_MODEL = f"{INPUTS}/models/{MODEL_NAME}"
_RECIPES = ("small", "tiny", "modes/two_stage", "modes/electric", "modes/length_curriculum")


def _conversion(source: str, target_format: str, output: str) -> Command:
    return Command(
        "convert_checkpoint.py",
        {"from": source, "to_format": target_format, "output": f"{CASE}/{output}"},
    )


def _export(component: str, **flags: str) -> Command:
    return Command(
        "export_saved_model.py",
        {
            "model_dir": _MODEL,
            "component": component,
            "export_dir": f"{CASE}/{component}",
            **flags,
        },
    )


PROGRAM_CASES = (
    Case(
        "build_vocabulary",
        (
            Command(
                "build_vocabulary.py",
                {
                    "corpus_dir": "demo/corpus",
                    "output_file": f"{CASE}/vocab.txt",
                    "vocab_size": 3000,
                },
            ),
        ),
    ),
    Case(
        "build_pretraining_dataset",
        tuple(
            Command(
                "build_pretraining_dataset.py",
                {
                    "corpus_dir": "demo/corpus",
                    "vocab_file": "demo/vocab.txt",
                    "output_dir": f"{CASE}/records_{processes}",
                    "max_seq_length": 64,
                    "num_out_files": 4,
                    "num_processes": processes,
                    "seed": 3,
                },
            )
            for processes in (1, 2)
        ),
    ),
    Case(
        "convert_checkpoint",
        (
            _conversion(_MODEL, "tf1", "tf1"),
            _conversion(f"{CASE}/tf1", "electra_tf", "from_tf1"),
            _conversion(_MODEL, "huggingface", "huggingface"),
            _conversion(f"{CASE}/huggingface", "electra_tf", "from_huggingface"),
            _conversion(_MODEL, "kerashub", "kerashub"),
            _conversion(f"{CASE}/kerashub", "electra_tf", "from_kerashub"),
        ),
    ),
    Case("export", (_export("discriminator"), _export("generator", format="onnx"))),
    Case(
        "flops_computation",
        (
            Command("flops_computation.py", {"json": f"{CASE}/published.json"}),
            Command(
                "flops_computation.py",
                {
                    "recipe": [f"recipes/{name}.flags" for name in _RECIPES],
                    "json": f"{CASE}/recipes.json",
                },
            ),
            Command("flops_computation.py", {**PRETRAINING, "json": f"{CASE}/run.json"}),
        ),
    ),
)
