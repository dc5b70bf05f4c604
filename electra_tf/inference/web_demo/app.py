"""Flask application of the web demo, and its server."""

from collections.abc import Callable, Mapping
from typing import Any

from flask import Flask, Response, jsonify, render_template, request
from flask.json.provider import DefaultJSONProvider
from werkzeug.exceptions import (
    BadRequest,
    ClientDisconnected,
    HTTPException,
    InternalServerError,
    RequestEntityTooLarge,
)

from electra_tf.inference.web_demo.config import DemoConfig
from electra_tf.inference.web_demo.models import ExportedModel, TaskModel, TokenInspector
from electra_tf.inference.web_demo.server import POLL_SECONDS, PageServer
from electra_tf.text.tokenizer_description import TokenizerDescription
from electra_tf.util.errors import UserError
from electra_tf.util.signals import exiting_on_signals
from electra_tf.util.text_checks import valid_text

# A character takes 6 bytes as a JSON escape, or 12 as a surrogate pair.
_BYTES_PER_CHARACTER = 12
_BYTES_AROUND = 1000
_MIN_TEXTS_PER_REQUEST = 2
# All resources are served by this application, except the empty icon, and other sites may not
# frame it.
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src data:; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class _FiniteJSON(DefaultJSONProvider):
    """Refuses NaN and infinity, which JSON does not have and browsers cannot read."""

    def dumps(self, obj: Any, **kwargs: Any) -> str:
        try:
            return super().dumps(obj, allow_nan=False, **kwargs)
        except ValueError as error:
            raise InternalServerError(
                "The model's outputs are not finite numbers (NaN or infinity)"
            ) from error


def create_app(config: DemoConfig) -> Flask:
    """Loads the models and returns the application.

    Raises:
        UserError: a folder is not an export of the expected kind.
    """
    inspector = None
    if config.discriminator:
        generator = ExportedModel(config.generator, "--generator") if config.generator else None
        discriminator = ExportedModel(config.discriminator, "--discriminator")
        inspector = TokenInspector(discriminator, generator)
    tasks = {
        name: TaskModel(ExportedModel(path, "--tasks"), "--tasks")
        for name, path in config.tasks.items()
    }
    return _create_app(config, inspector, tasks)


def _create_app(
    config: DemoConfig, inspector: TokenInspector | None, tasks: Mapping[str, TaskModel]
) -> Flask:
    app = Flask(__name__)
    app.json = _FiniteJSON(app)
    app.config["MAX_CONTENT_LENGTH"] = _max_request_bytes(config, tasks)
    _check_hosts(app, config)
    _add_page(app, inspector, tasks)
    if inspector is not None:
        _add_tokens(app, config, inspector)
    _add_tasks(app, config, tasks)
    _describe_errors(app, config)
    _add_headers(app)
    return app


def _max_request_bytes(config: DemoConfig, tasks: Mapping[str, TaskModel]) -> int:
    texts = max([_MIN_TEXTS_PER_REQUEST, *(len(task.input_names) for task in tasks.values())])
    return texts * _BYTES_PER_CHARACTER * config.max_characters + _BYTES_AROUND


def _check_hosts(app: Flask, config: DemoConfig) -> None:
    """Refuses requests to other host names, such as those of DNS rebinding."""

    @app.before_request
    def check_host() -> tuple[Response, int] | None:
        name = request.headers.get("Host")
        if config.allows(name):
            return None
        return jsonify(
            error=f"This server does not answer to the host name {name!r}; see --allowed_hosts"
        ), 421


def _add_page(
    app: Flask, inspector: TokenInspector | None, tasks: Mapping[str, TaskModel]
) -> None:
    @app.get("/")
    def page() -> str:
        return render_template(
            "page.html",
            has_tokens=inspector is not None,
            tasks={name: _inputs_of_form(task) for name, task in tasks.items()},
            tokenizers={
                name: _describe_tokenizer(model.tokenizer)
                for name, model in {"": inspector, **tasks}.items()
                if model is not None and model.tokenizer is not None
            },
        )


def _inputs_of_form(task: TaskModel) -> dict[str, bool]:
    """Returns whether each input is a list, given as lines; texts come first."""
    return {
        text: is_list
        for is_list in (False, True)
        for text in task.input_names
        if (text in task.list_names) == is_list
    }


def _add_tokens(app: Flask, config: DemoConfig, inspector: TokenInspector) -> None:
    @app.post("/api/tokens")
    def tokens() -> Response:
        (text,) = _texts(("text",), config.max_characters)
        found = inspector.inspect(text)
        if len(found) >= inspector.max_tokens:
            return jsonify(tokens=found, limit=inspector.max_tokens)
        return jsonify(tokens=found)


def _add_tasks(app: Flask, config: DemoConfig, tasks: Mapping[str, TaskModel]) -> None:
    @app.post("/api/tasks/<name>")
    def task(name: str) -> Response | tuple[Response, int]:
        if name not in tasks:
            return jsonify(error=f"No such task: {name!r}"), 404
        names = tasks[name].input_names
        texts = _texts(names, config.max_characters)
        return jsonify(tasks[name].answer(**dict(zip(names, texts, strict=True))))


def _describe_errors(app: Flask, config: DemoConfig) -> None:
    """Answers failed requests with a message in JSON."""

    @app.errorhandler(UserError)
    def refuse(error: UserError) -> tuple[Response, int]:
        return jsonify(error=str(error)), 400

    @app.errorhandler(HTTPException)
    def describe(error: HTTPException) -> tuple[Response, int]:
        message = error.description
        if isinstance(error.__cause__, BadRequest):  # says where JSON is invalid
            message = error.__cause__.description
        if isinstance(error, RequestEntityTooLarge):
            message = f"A text may have at most {config.max_characters} characters"
        if isinstance(error, ClientDisconnected):
            message = f"The request took longer than {config.request_seconds:g} seconds"
            return jsonify(error=message), 408
        return jsonify(error=message), error.code


def _add_headers(app: Flask) -> None:
    @app.after_request
    def secure(response: Response) -> Response:
        response.headers.update(_HEADERS)
        return response


def _describe_tokenizer(tokenizer: TokenizerDescription) -> str:
    """Returns a short description, such as "lowercased, accents kept, vocabulary 1a2b3c4d"."""
    case = "lowercased" if tokenizer.do_lower_case else "case kept"
    accents = "accents stripped" if tokenizer.strip_accents else "accents kept"
    return f"{case}, {accents}, vocabulary {tokenizer.vocab_sha256[:8]}"


def _texts(names: tuple[str, ...], max_characters: int) -> list[str]:
    """Returns the texts of the request's JSON object, in the order of `names`."""
    try:
        body: Any = request.get_json()
    except RecursionError:
        raise UserError("The JSON of the request is nested too deeply") from None
    texts = [body.get(name) if isinstance(body, dict) else None for name in names]
    for name, text in zip(names, texts, strict=True):
        if not isinstance(text, str):
            raise UserError(f"The request must be a JSON object with a string {name!r}")
        if len(text) > max_characters:
            raise UserError(
                f"{name!r} has {len(text)} characters; the limit is {max_characters}"
            )
    return list(map(valid_text, texts))


def _print_now(message: str) -> None:
    """Prints and flushes, so that a pipe gets the message at once."""
    print(message, flush=True)


def serve(config: DemoConfig, print_fn: Callable[[str], None] = _print_now) -> None:
    """Serves the page until Ctrl-C, or until SIGTERM, after which it finishes open requests.

    Raises:
        UserError: `create_app` raises it, or the address is not available.
    """
    with exiting_on_signals():
        app = create_app(config)
        server = PageServer(config.host, config.port, app, config.request_seconds)
        if not config.is_local:
            print_fn(
                "Other machines can reach this page, which has no authentication or encryption."
            )
        host = f"[{config.host}]" if ":" in config.host else config.host
        print_fn(f"Serving: http://{host}:{server.server_port}/ (Ctrl-C to stop)")
        try:
            with server, server.accepting() as has_ended:
                while not has_ended.wait(POLL_SECONDS):
                    pass  # a signal that arrives just before the wait does not end it
        except KeyboardInterrupt:
            print_fn("Stopped")
        except SystemExit:
            left = server.finish_requests(config.request_seconds)
            unanswered = f"; unanswered requests: {left}" if left else ""
            print_fn(f"Stopped by a signal{unanswered}")
