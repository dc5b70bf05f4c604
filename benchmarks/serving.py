r"""Compares the web demo's server with one of Hugging Face's ELECTRA on PyTorch, on the CPU.

    python -m benchmarks.serving --data_dir DATA --torch_python /path/to/env/bin/python

The requests are texts of real lengths: the sentences of SST's dev set, and the paragraphs of
SQuAD's, from `DATA/finetuning_data`. Ours is `serve_demo.py` with an exported SavedModel that
tokenizes in its graph; theirs is a threaded HTTP server with the Rust tokenizer, eager or
compiled by `torch.compile` for all lengths. Both classify with the same random weights of
ELECTRA and answer one request per connection, from JSON to JSON. Each client sends its next
request when it has the answer to its last. The servers are asked by turns. Needs Linux, and
`pip install -e '.[demo]'`; without `--torch_python` only ours is measured.
"""

import concurrent.futures
import contextlib
import csv
import dataclasses
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import flags

from benchmarks import inference
from benchmarks.export_formats import VOCABULARY
from benchmarks.side_by_side import NO_GPU, NUM_CORES, describe_machine, our_command, spread
from electra_tf.util.console import markdown_table
from electra_tf.util.errors import UserError
from flags.command_line import program

_DATA_DIR = flags.DEFINE_string("data_dir", None, "Folder with finetuning_data.", required=True)
_CLIENTS = flags.DEFINE_list("clients", "1,8", "Clients that send requests at the same time.")

TASK = "classification"
MAX_SEQ_LENGTH = 512
MAX_CHARACTERS = 10_000
OURS = "ours, float32"
# Name of a peer to the `way` of `huggingface_inference.create_model`.
THEIRS = {
    "Hugging Face, float32": "float32",
    "Hugging Face, float32_compiled": "float32_compiled",
}
_ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/")


def main() -> None:
    """Prints latencies and rates by texts and number of clients."""
    torch_python = flags.FLAGS.torch_python
    texts = {"SST": _sentences(), "SQuAD": _paragraphs()}
    print(describe_machine(torch_python), flush=True)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        config = inference.create_config("float32", MAX_SEQ_LENGTH)
        settings = {"folder": folder, "config": dataclasses.asdict(config)}
        subprocess.run(our_command("serving", json.dumps(settings)), check=True)
        commands = {OURS: _our_server(folder)}
        if torch_python:
            encoder = dataclasses.asdict(config.encoder)
            encoder["layer_norm_eps"] = encoder.pop("layer_norm_epsilon")
            commands |= {
                name: _their_server(torch_python, folder, encoder, way)
                for name, way in THEIRS.items()
            }
        ports = {}
        for name, command in commands.items():
            print(f"Warming up: {name} …", file=sys.stderr)
            ports[name] = stack.enter_context(_server(name, command))
            for some in texts.values():
                _ask_all(ports[name], some[:: max(1, len(some) // 40)], 1, seconds=60.0)
        _check_agreement(ports, [some[0] for some in texts.values()])
        rows = [
            row
            for title, some in texts.items()
            for clients in (int(count) for count in _CLIENTS.value)
            for row in measure(ports, title, some, clients)
        ]
    header = ["texts", "clients", "", "requests/s (range)", "p50, ms", "p99, ms"]
    print(markdown_table(header, rows, text_columns=3))


def measure(
    ports: Mapping[str, int], title: str, texts: Sequence[str], clients: int
) -> list[list[str]]:
    """Returns a row of the table for every server: its rate, and latencies of all rounds."""
    print(f"Measuring {title}, {clients} clients …", file=sys.stderr)
    rates = {name: [] for name in ports}
    latencies = {name: [] for name in ports}
    for round_number in range(flags.FLAGS.rounds):
        shuffled = random.Random(round_number).sample(texts, len(texts))
        for name, port in ports.items():
            start = time.perf_counter()
            found = _ask_all(port, shuffled, clients, seconds=flags.FLAGS.seconds)
            rates[name].append(len(found) / (time.perf_counter() - start))
            latencies[name] += found
    return [
        [title, str(clients), name, spread(rates[name], 1), *_percentiles(latencies[name])]
        for name in ports
    ]


def _percentiles(seconds: Sequence[float]) -> list[str]:
    return [f"{1000 * value:.1f}" for value in np.percentile(seconds, [50, 99])]


def _ask_all(port: int, texts: Sequence[str], clients: int, *, seconds: float) -> list[float]:
    """Sends texts from several clients until the time is over; returns the latencies."""
    end = time.perf_counter() + seconds

    def client(number: int) -> list[float]:
        found = []
        for text in texts[number::clients]:
            start = time.perf_counter()
            if found and start > end:
                break
            _ask(port, text)
            found.append(time.perf_counter() - start)
        return found

    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        return [latency for found in pool.map(client, range(clients)) for latency in found]


def _ask(port: int, text: str) -> dict[str, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Content-Type": "application/json"}
    try:
        connection.request("POST", f"/api/tasks/{TASK}", json.dumps({"text": text}), headers)
        response = connection.getresponse()
        body = response.read()
    finally:
        connection.close()
    if response.status != http.client.OK:
        raise UserError(f"Port {port} answered {response.status}: {body[:200]!r}")
    return json.loads(body)


def _check_agreement(ports: Mapping[str, int], texts: Sequence[str]) -> None:
    for text in texts:
        scores = {name: _ask(port, text)["scores"] for name, port in ports.items()}
        for name, found in scores.items():
            if not np.allclose(found, scores[OURS], atol=1e-4):
                raise UserError(f"{name} answers {found}, ours {scores[OURS]}: {text[:50]}")


@contextlib.contextmanager
def _server(name: str, command: Sequence[str]) -> Iterator[int]:
    """Starts a server that prints its address, and yields its port."""
    with tempfile.TemporaryFile("w+") as log:  # a line per request
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ, **NO_GPU}
        )
        try:
            for line in process.stdout:
                if found := _ADDRESS.search(line):
                    yield int(found[1])
                    return
            status = process.wait()
            log.seek(0)
            raise UserError(f"{name} ended with status {status}:\n{log.read()}")
        finally:
            process.kill()
            process.communicate()


def _our_server(folder: str) -> list[str]:
    script = pathlib.Path(__file__).parents[1] / "serve_demo.py"
    options = ["--port=0", f"--max_characters={MAX_CHARACTERS}"]
    return [sys.executable, str(script), f"--tasks={folder}/{TASK}", *options]


def _their_server(
    torch_python: str, folder: str, encoder: Mapping[str, Any], way: str
) -> list[str]:
    settings = {
        "weights": os.path.join(folder, "weights.npz"),
        "vocabulary": str(VOCABULARY),
        "encoder": encoder,
        "task": inference.TASK,
        "way": way,
        "max_seq_length": MAX_SEQ_LENGTH,
        "num_threads": NUM_CORES,
    }
    script = pathlib.Path(__file__).with_name("huggingface_server.py")
    return [torch_python, str(script), json.dumps(settings)]


def _sentences() -> list[str]:
    path = pathlib.Path(_DATA_DIR.value, "finetuning_data/sst/dev.tsv")
    with _open(path) as file:
        return [row["sentence"] for row in csv.DictReader(file, delimiter="\t", quoting=3)]


def _paragraphs() -> list[str]:
    path = pathlib.Path(_DATA_DIR.value, "finetuning_data/squad/dev.json")
    with _open(path) as file:
        articles = json.load(file)["data"]
    return [p["context"] for article in articles for p in article["paragraphs"]]


def _open(path: pathlib.Path) -> Any:
    try:
        return path.open(encoding="utf-8", newline="")
    except OSError as error:
        raise UserError(f"--data_dir: {path}: {error.strerror}") from error


def serve(settings_json: str) -> None:
    """Is our child that exports the model, and writes the weights that theirs read."""
    from electra_tf.util.tensorflow_import import import_tensorflow

    import_tensorflow()
    from benchmarks.export_formats import write_exports

    settings = json.loads(settings_json)
    folder = pathlib.Path(settings["folder"])
    model, task = write_exports(folder, settings["config"], ("float32",), others=False)
    np.savez(folder / "weights.npz", **inference.authors_variables(model, task.name))
    (folder / TASK).mkdir()
    shutil.move(folder / "float32", folder / TASK / "1")


if __name__ == "__main__":
    program.run(main)
