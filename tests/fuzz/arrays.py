"""Arrays that the property tests of numbers draw."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

ROWS, CLASSES = 3, 5
LARGE = 1e30
values = st.floats(-100, 100, width=32) | st.sampled_from([0.0, -0.0, 1e-40, -1e-40, 1e4, -1e4])
logits_2d = arrays.arrays(np.float32, (ROWS, CLASSES), elements=values) | st.sampled_from(
    [np.full((ROWS, CLASSES), x, np.float32) for x in (0.0, 1e4, -1e4, 88.8, 1e30, -1e30)]
)
classes = arrays.arrays(np.int32, ROWS, elements=st.integers(0, CLASSES - 1))
