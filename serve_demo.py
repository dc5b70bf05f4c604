r"""Serves a web page over exported models, on this machine.

    python serve_demo.py --discriminator demo/output/exported/discriminator \
        --generator demo/output/exported/generator --tasks demo/output/exported/router

Open http://127.0.0.1:8080/ and type a sentence: every token is shaded by its probability of
being replaced, and pointing at one shows what the generator would put there. Needs the
dependencies of `pip install -e '.[demo]'`.
"""

from flags import command_line, web_demo


def main() -> None:
    """Serves what the flags ask for."""
    config = web_demo.demo_config()

    from electra_tf.util.tensorflow_import import import_tensorflow

    import_tensorflow()
    from electra_tf.inference.web_demo.app import serve

    serve(config)


if __name__ == "__main__":
    web_demo.define_flags()
    command_line.run(main)
