"""Hyperparameters as frozen dataclasses: defaults, validation and derived shapes.

`pretraining_fields` has the hyperparameters of pre-training; its base classes have those shared
with fine-tuning: devices (`distribution`), trackers and non-finite updates. `pretraining`
builds a configuration from them, and `checks` refuses impossible values. `choices` maps the
names of objectives, masking strategies, generators and sharing modes to their code.
`saved_config` reads `config.json`, the record of a run; `recorded_settings` and `resumption`
compare it with the settings of a later start.

Does not import TensorFlow, so flags are checked instantly. Imports `electra_tf.text` and
`electra_tf.util`.
"""
