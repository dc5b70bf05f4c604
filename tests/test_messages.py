"""Messages of errors have one form; read from the syntax trees."""

import ast

from tests.test_layers import modules, tree


def messages() -> list[tuple[str, str]]:
    """Returns the place and the end of every message of a UserError or a warning."""
    found = []
    for module in sorted(modules()):
        for node in ast.walk(tree(module)):
            if (
                isinstance(node, ast.Call)
                and ast.unparse(node.func) in ("UserError", "warn_once")
                and node.args
            ):
                message = node.args[0]
                last = message.values[-1] if isinstance(message, ast.JoinedStr) else message
                if isinstance(last, ast.Constant):
                    found.append((f"{module}:{node.lineno}", last.value))
    return found


def test_a_message_has_no_final_period():
    """The programs print `error: MESSAGE`, and messages are parts of others."""
    found = messages()
    assert len(found) > 300
    assert [place for place, end in found if end.endswith(".")] == []
