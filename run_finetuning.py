r"""Fine-tunes a pre-trained ELECTRA on tasks, evaluates it, and predicts.

    python run_finetuning.py --data-dir demo/output --model-name quickstart \
        --task_spec recipes/tasks/router.json --task_names router

The authors' way of giving hyperparameters works too, inline or as a .json file:

    python run_finetuning.py --data-dir data --model-name electra_small \
        --hparams '{"model_size": "small", "task_names": ["cola"], "num_trials": 5}'

Running a command again takes up what is finished and goes on from there.
"""

from flags import command_line, finetuning


def main() -> None:
    """Runs what the flags ask for."""
    config = finetuning.config_from_flags()

    from electra_tf.util.tensorflow_import import import_tensorflow

    import_tensorflow()
    from finetune import run

    run.run(config)


if __name__ == "__main__":
    finetuning.define_flags()
    command_line.run(main)
