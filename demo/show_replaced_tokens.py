r"""Shows which tokens of a few sentences the discriminator believes were replaced.

    python -m demo.show_replaced_tokens --data-dir demo/output --model-name quickstart \
        --flagfile recipes/quickstart.flags --text_file demo/sentences.txt
"""

import pathlib
import sys

from absl import flags

from electra_tf.errors import UserError
from flags import command_line, pretraining


def main() -> None:
    """Loads the newest checkpoint and prints each sentence of the file."""
    config = pretraining.config_from_flags()
    path = pathlib.Path(flags.FLAGS.text_file)
    if not path.is_file():
        raise UserError(f"--text_file={path}: there is no such file")
    sentences = [line for line in path.read_text(encoding="utf-8").splitlines() if line]

    from pretrain_data.quiet import import_tensorflow

    import_tensorflow()
    from electra_tf import replaced_tokens, training
    from electra_tf.strategies import create_strategy
    from pretrain_data.tokenizer import Tokenizer
    from pretrain_data.vocabulary import load_vocabulary

    vocabulary = load_vocabulary(config.vocab_file, "--vocab_file")
    model, step, _ = training.load_model(config, vocabulary, create_strategy(config.strategy))
    tokenizer = Tokenizer(vocabulary, config.do_lower_case, config.strip_accents)
    inspected = replaced_tokens.inspect_sentences(
        model, vocabulary, tokenizer, sentences, config.seed
    )
    color = sys.stdout.isatty() or flags.FLAGS.color
    print(f"The generator replaced some tokens of each sentence (model of step {step}).")
    print(
        "Underlined: replaced. Red: what the discriminator suspects most."
        if color
        else "token(original): replaced. token?: what the discriminator suspects most."
    )
    for tokens in inspected:
        print(f"\n  {replaced_tokens.render(tokens, color=color)}")
        worst = sorted(tokens, key=lambda item: -item.probability)[:3]
        named = ", ".join(f"{item.token} {item.probability:.0%}" for item in worst)
        print(f"    most suspected: {named}")
    print("\nNext: pre-train on your own text, see README.md")


if __name__ == "__main__":
    pretraining.define_flags()
    flags.DEFINE_string("text_file", "demo/sentences.txt", "One sentence a line.")
    flags.DEFINE_boolean("color", False, "Colour the output even if it is no terminal.")
    command_line.run(main)
