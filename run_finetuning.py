r"""Fine-tunes a pre-trained ELECTRA on tasks, evaluates it, and predicts.

    python run_finetuning.py --data-dir demo/output --model-name quickstart \
        --task_spec recipes/tasks/router.json --task_names router

See `--help` for all options.
"""

from flags import programs

if __name__ == "__main__":
    programs.run_finetuning()
