r"""Pre-trains an ELECTRA model, or evaluates one on held-out text.

    python run_pretraining.py --data-dir demo/output --model-name quickstart \
        --flagfile recipes/quickstart.flags

The authors' way of giving hyperparameters works too, inline or as a .json file:

    python run_pretraining.py --data-dir data --model-name electra_small \
        --hparams '{"model_size": "small", "num_train_steps": 1000000}'

Running a command again goes on from its newest checkpoint. On all GPUs of this host, or on
two hosts (the second one with --task_index=1); recipes/launch has more:

    python run_pretraining.py --data-dir data --model-name electra_small --strategy=mirrored
    python run_pretraining.py --data-dir data --model-name electra_small \
        --strategy=multi_worker --workers=host1:2222,host2:2222 --task_index=0

Evaluation, of the same run:

    python run_pretraining.py --data-dir data --model-name electra_small \
        --do_train=false --do_eval --eval_tfrecords 'data/eval_tfrecords/*.tfrecord*'
"""

from flags import command_line, pretraining


def main() -> None:
    """Trains or evaluates, as the flags ask."""
    config = pretraining.config_from_flags()

    from electra_tf.util.tensorflow_import import import_tensorflow

    import_tensorflow()
    from electra_tf.pretraining import evaluate, train
    from electra_tf.training.distribution import strategies

    chief = strategies.is_chief(config)
    if config.do_train:
        train(config)
        if chief:
            more = ("--do_train=false", "--do_eval")
            print(command_line.next_command("run_pretraining.py", *more))
    else:
        evaluate(config)
        if chief and config.electra_objective:
            print(command_line.next_command("show_replaced_tokens.py"))


if __name__ == "__main__":
    pretraining.define_flags()
    command_line.run(main)
