"""[CLS] first [SEP] second [SEP]: how token ids become one sequence, and truncation."""


def truncated_lengths(length_a: int, length_b: int, room: int) -> tuple[int, int]:
    """Returns how many tokens of two texts fit into `room`.

    It is BERT's rule: tokens go one by one from the longer text, and from the second
    where both are as long.
    """
    if length_a + length_b <= room:
        return length_a, length_b
    if length_b <= room // 2:
        return room - length_b, length_b
    if length_a <= (room + 1) // 2:
        return length_a, room - length_a
    return (room + 1) // 2, room // 2
