import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Conv1d

__all__ = ['SequenceEmbedding']


class SequenceEmbedding(torch.nn.Module):
    r"""A 1-D convolution over sequences of symbols and its largest value,
    from the `"Modern Hopfield Networks and Attention for Immune Repertoire
    Classification" <https://arxiv.org/abs/2007.13505>`_ paper (DeepRC).

    .. math::
        z = \max_{t < \ell}\, \mathrm{SELU}\big( \mathrm{conv}(
            [\mathrm{onehot}(s_t) \,\Vert\, p_t]) \big), \qquad
        p_t = \big( (1 - 2 \tau)_+,\; 1 - |2 \tau - 1|,\;
            (2 \tau - 1)_+ \big)

    where :math:`\tau = t / (\ell - 1)` is the place in a sequence of length
    :math:`\ell`: its three features are 1 at the start, in the middle and at
    the end. Every sequence is embedded for itself, and what stands behind
    its end changes nothing.

    Args:
        out_channels (int, optional): Number of kernels.
            (default: :obj:`32`)
        num_symbols (int, optional): Size of the alphabet.
            (default: :obj:`20`, amino acids)
        kernel_size (int, optional): Length of a kernel, odd.
            (default: :obj:`9`)

    Shapes:
        - **input:** symbols :math:`(N, L)`, integers; -1 behind the end
        - **output:** :math:`(N, C_\mathrm{out})`, zeros for empty sequences

    Example:
        >>> SequenceEmbedding(32)(torch.tensor([[3, 0, 19, -1]])).shape
        torch.Size([1, 32])
    """

    def __init__(
        self,
        out_channels: int = 32,
        num_symbols: int = 20,
        kernel_size: int = 9,
    ):
        super().__init__()
        if kernel_size < 1 or kernel_size % 2 == 0:
            raise ValueError(
                f"'SequenceEmbedding' expects an odd kernel_size >= 1 (got "
                f'{kernel_size})'
            )
        self.out_channels = out_channels
        self.num_symbols = num_symbols
        self.conv = Conv1d(
            num_symbols + 3,
            out_channels,
            kernel_size,
            padding=kernel_size // 2,
        )
        self.reset_parameters()

    def reset_parameters(self):
        r"""Draws the kernels so that SELU keeps their variance."""
        for name, weight in self.conv.named_parameters():
            if name == 'bias':
                torch.nn.init.zeros_(weight)
            else:
                torch.nn.init.kaiming_normal_(weight, nonlinearity='linear')

    def forward(self, symbols: Tensor) -> Tensor:
        r"""Returns one row per sequence.

        Args:
            symbols (LongTensor): :math:`[N, L]`; every sequence starts at 0
                and has -1 behind its end.
        """
        if symbols.dim() != 2 or symbols.is_floating_point():
            raise ValueError(
                f"'SequenceEmbedding' expects integers of shape [N, L] (got "
                f'{list(symbols.shape)} of {symbols.dtype})'
            )
        inside = symbols >= 0  # [N, L]
        codes = symbols.clamp(min=0).long()
        hot = F.one_hot(codes, self.num_symbols).to(self.conv.weight.dtype)
        x = torch.cat([hot, self._places(inside)], dim=-1)  # [N, L, A + 3]
        x = x * inside.unsqueeze(-1)
        out = F.selu(self.conv(x.transpose(1, 2)))  # [N, C, L]
        out = out.masked_fill(~inside.unsqueeze(1), -torch.inf).amax(-1)
        return out.masked_fill(~inside.any(1, keepdim=True), 0.0)

    def _places(self, inside: Tensor) -> Tensor:
        """Nearness to start, middle and end, `[N, L, 3]`."""
        steps = torch.arange(inside.size(1), device=inside.device)
        last = (inside.sum(1, keepdim=True) - 1).clamp(min=1)
        place = 2 * (steps / last).to(self.conv.weight.dtype)  # [N, L]
        middle = 1 - (place - 1).abs()
        return torch.stack(
            [(1 - place).relu(), middle, (place - 1).relu()], dim=-1
        )

    def __repr__(self) -> str:
        return (
            f'{self.__class__.__name__}({self.out_channels}, '
            f'num_symbols={self.num_symbols}, '
            f'kernel_size={self.conv.kernel_size[0]})'
        )
