"""The PyTorch side of `benchmarks.serving`, for a Python of its own.

    python -m benchmarks.serving --torch_python /path/to/env/bin/python

starts this file with its settings as JSON: an HTTP server with a thread per connection, which
answers {"text": …} with the scores of the classes. Needs torch and transformers, and nothing
of this repository.
"""

import http.server
import json
import sys
from typing import Any

import torch
from huggingface_inference import create_model
from tokenizers import BertWordPieceTokenizer


def main() -> None:
    """Serves until it is killed; prints the address first."""
    settings = json.loads(sys.argv[1])
    torch.set_num_threads(settings["num_threads"])
    tokenizer = BertWordPieceTokenizer(settings["vocabulary"], lowercase=True)
    tokenizer.enable_truncation(settings["max_seq_length"])
    # Compiled once, for all lengths.
    model = create_model(settings, dynamic=True)

    def answer(text: str) -> dict[str, Any]:
        encoding = tokenizer.encode(text)
        names = encoding.ids, encoding.attention_mask, encoding.type_ids
        with torch.inference_mode():
            logits = model(*(torch.tensor([values]) for values in names))
        scores = logits.float().softmax(-1)[0].tolist()
        return {"scores": scores, "label": scores.index(max(scores))}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"]
            body = json.dumps(answer(text)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *values: Any) -> None:
            """Logs nothing."""

    answer("warm up")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
