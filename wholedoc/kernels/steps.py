"""The structures of ``steps.c`` and ``loops.h``, by their names there, and what fills them."""

import ctypes

from torch import Tensor

_Fields = list[tuple[str, type]]


def _numbers(*names: str) -> _Fields:
    return [(name, ctypes.c_long) for name in names]


def _pointers(*names: str) -> _Fields:
    return [(name, ctypes.c_void_p) for name in names]


class Tape(ctypes.Structure):
    """A recurrence that was or is to be computed."""

    _fields_ = [
        *_numbers("hidden", "extra"),
        *_pointers("first", "bias", "state"),
        *_pointers("projected", "both", "new_states", "states"),
    ]


class Return(ctypes.Structure):
    """Its way back."""

    _fields_ = _pointers("state", "grads")


class Source(ctypes.Structure):
    """What a decoder looks at."""

    _fields_ = [
        *_numbers("cells", "align", "width"),
        *_pointers("lengths", "keys", "values", "score"),
    ]


class Unroll(ctypes.Structure):
    """A decoder that reads given words."""

    _fields_ = [
        *_numbers("steps"),
        *_pointers("counts"),
        ("source", Source),
        ("lower", Tape),
        ("upper", Tape),
        *_pointers("context", "between", "between_bias", "context_mask", "lower_mask"),
        *_pointers("alphas", "contexts", "seen_contexts", "seen_lower"),
    ]


class UnrollReturn(ctypes.Structure):
    """Its way back."""

    _fields_ = [
        ("lower", Return),
        ("upper", Return),
        *_pointers("context", "between"),
        *_pointers("grad_states", "d_contexts", "d_keys", "d_scores", "room"),
    ]


def pointer(tensor: Tensor | None) -> int | None:
    """Where the numbers of a tensor are, if there is one."""
    return None if tensor is None else tensor.data_ptr()
