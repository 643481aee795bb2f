import math
from typing import Optional, Union

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Parameter

__all__ = ['PositiveScalar', 'inverse_softplus']


class PositiveScalar(torch.nn.Module):
    r"""A positive number that is fixed, or learned through a softplus.

    Args:
        name (str): What it is, for error messages.
        value (float, str or None): A fixed value, :obj:`"learn"`, or
            :obj:`None` for :obj:`default`.
        default (float): The value of :obj:`None`, and where :obj:`"learn"`
            starts.
        size (int, optional): Number of learned values; a scalar if
            :obj:`None`. (default: :obj:`None`)

    Raises:
        ValueError: If the value is neither positive nor :obj:`"learn"`.
    """

    def __init__(
        self,
        name: str,
        value: Union[float, str, None],
        default: float,
        size: Optional[int] = None,
    ):
        super().__init__()
        learn = value == 'learn'
        start = default if value is None or learn else value
        if isinstance(start, str) or not 0 < start < math.inf:
            raise ValueError(
                f"'{name}' must be a finite number > 0 or 'learn' "
                f'(got {value!r})'
            )
        self.start = float(start)
        if learn:
            self.weight = Parameter(torch.empty(() if size is None else size))
        else:
            self.register_parameter('weight', None)
        self.reset_parameters()

    def reset_parameters(self):
        r"""Sets a learned value back to where it started."""
        if self.weight is not None:
            torch.nn.init.constant_(self.weight, inverse_softplus(self.start))

    def forward(self) -> Union[float, Tensor]:
        """The current value; learned ones as a tensor, float32 at least."""
        if self.weight is None:
            return self.start
        dtype = torch.promote_types(self.weight.dtype, torch.float32)
        return F.softplus(self.weight.to(dtype))

    def __repr__(self) -> str:
        learned = '' if self.weight is None else ', learned'
        return f'{self.__class__.__name__}({self.start:.4g}{learned})'


def inverse_softplus(value: float) -> float:
    r""":math:`\log(e^y - 1)`, without overflow for large values."""
    return value + math.log(-math.expm1(-value))
