from typing import Optional, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Parameter

from torch_geometric.data import Data
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.typing import OptTensor

from torch_energy_graph.dynamics import EnergyTrace
from torch_energy_graph.nn.conv import EnergyTransformerConv
from torch_energy_graph.nn.conv.attention_edges import AttentionEdges
from torch_energy_graph.nn.encoding.grid_positions import GridPositions
from torch_energy_graph.nn.grid import (
    grid_edges,
    grid_shape,
    image_to_patches,
    pair_of,
    patches_to_image,
    window_of,
)
from torch_energy_graph.nn.models.image_dynamics import (
    AllTokens,
    EdgeTokens,
    ImageDynamics,
    batched_edges,
)

__all__ = ['ImageEnergyTransformer']


class ImageEnergyTransformer(torch.nn.Module):
    r"""Completion of images with hidden patches, from the `"Energy
    Transformer" <https://arxiv.org/abs/2302.07253>`_ paper: an associative
    memory that is trained end to end.

    .. math::
        x^0_i = \lambda_i + \begin{cases} \mathrm{MASK} & i \text{ hidden} \\
        W_\mathrm{in} y_i + b_\mathrm{in} & \text{else} \end{cases}, \qquad
        x^T = \mathrm{block}(x^0), \qquad
        \hat y_i = W_\mathrm{out}\, \mathrm{norm}(x^T_i) + b_\mathrm{out}

    Patches y become tokens, positions :math:`\lambda` are added, one
    recurrent energy block (:class:`~torch_energy_graph.nn.
    EnergyTransformerConv`) runs T steps, and its norm and a linear map give
    patches again. The loss on hidden patches is the mean squared error.

    On a complete grid, every token attends to all tokens of its image, as in
    the released code, in dense products; other grids use the sparse operator
    of all graphs. Values do not depend on which of the two is used.

    Args:
        image_size (int or (int, int)): Height H and width W of the images.
        patch_size (int or (int, int)): Height p and width q of a patch.
        in_channels (int, optional): Channels c of a pixel.
            (default: :obj:`1`)
        hidden_channels (int, optional): Channels C of a token.
            (default: :obj:`64`)
        heads (int, optional): Number of attention heads.
            (default: :obj:`4`)
        head_channels (int, optional): Channels of a head.
            (default: :obj:`hidden_channels // heads`)
        num_memories (int, optional): Number of memories.
            (default: :obj:`4 * hidden_channels`)
        num_steps (int, optional): Number of steps T. (default: :obj:`12`)
        step_size (float or str, optional): Step size, :obj:`"learn"` or
            :obj:`"auto"`. (default: :obj:`0.1`)
        connectivity (int or str, optional): :obj:`"complete"`, :obj:`4`,
            :obj:`8` or :obj:`"radius"`, see
            :func:`~torch_energy_graph.data.image_to_grid_graph`.
            (default: :obj:`"complete"`)
        radius (int, optional): Reach of :obj:`"radius"`, in patches.
        diagonal (bool, optional): Whether :obj:`"radius"` reaches a square
            or a diamond. (default: a square)
        self_loops (bool, optional): Whether a token attends to itself, as in
            the released code. (default: :obj:`True`)
        periodic (bool, optional): Whether opposite borders touch.
            (default: :obj:`False`)
        cls_token (bool, optional): Whether a class token comes first.
            (default: :obj:`False`)
        positions (str, optional): :obj:`"learned"` or :obj:`"sinusoidal"`.
            (default: :obj:`"learned"`)
        position_std (float, optional): Deviation of learned positions at the
            start. The released code has 0.002, with which attention learns
            late to look for a place. (default: :obj:`0.5`)
        clamp (bool, optional): Whether the tokens of visible patches stay
            where they are while hidden ones move. (default: :obj:`False`)
        **kwargs (optional): Additional arguments of
            :class:`~torch_energy_graph.nn.EnergyTransformerConv`, such as
            :obj:`checkpoint`, :obj:`noise_std` or :obj:`activation`.

    Shapes:
        - **input:** images :math:`(B, c, H, W)`, hidden patches
          :math:`(B, R S)` or :math:`(R S)`, bool *(optional)*
        - **output:** images :math:`(B, c, H, W)`

    Example:
        >>> model = ImageEnergyTransformer(28, patch_size=4)
        >>> hidden = torch.arange(49) % 2 == 0  # every second patch
        >>> model(torch.rand(3, 1, 28, 28), hidden).shape
        torch.Size([3, 1, 28, 28])
    """

    energy_contract = None
    edge_index: OptTensor

    def __init__(
        self,
        image_size: Union[int, Tuple[int, int]],
        patch_size: Union[int, Tuple[int, int]],
        in_channels: int = 1,
        hidden_channels: int = 64,
        heads: int = 4,
        head_channels: Optional[int] = None,
        num_memories: Optional[int] = None,
        num_steps: int = 12,
        step_size: Union[float, str] = 0.1,
        connectivity: Union[int, str] = 'complete',
        radius: Optional[int] = None,
        diagonal: Optional[bool] = None,
        self_loops: bool = True,
        periodic: bool = False,
        cls_token: bool = False,
        positions: str = 'learned',
        position_std: float = 0.5,
        clamp: bool = False,
        **kwargs,
    ):
        super().__init__()
        self.image_size = pair_of(image_size, 'image_size')
        self.patch_size = pair_of(patch_size, 'patch_size')
        self.in_channels = in_channels
        self.hidden_channels = hidden_channels
        self.connectivity = connectivity
        self.self_loops = self_loops
        self.clamp = clamp
        self.grid = grid_shape(self.image_size, self.patch_size)
        window = window_of(connectivity, radius, diagonal, periodic)
        edge_index = None
        if window is not None:
            edge_index = grid_edges(
                *self.grid,
                connectivity,
                radius,
                diagonal,
                self_loops,
                periodic,
                cls_token,
            )
        self.register_buffer('edge_index', edge_index, persistent=False)
        self._last_edges: Optional[AttentionEdges] = None
        width = in_channels * self.patch_size[0] * self.patch_size[1]
        self.encoder = Linear(width, hidden_channels)
        self.positions = GridPositions(
            *self.grid,
            hidden_channels,
            positions,
            cls_token,
            position_std,
        )
        self.mask_token = Parameter(torch.empty(hidden_channels))
        if cls_token:
            self.cls = Parameter(torch.empty(hidden_channels))
        else:
            self.register_parameter('cls', None)
        self.block = EnergyTransformerConv(
            hidden_channels,
            heads=heads,
            head_channels=head_channels,
            num_memories=num_memories,
            num_steps=num_steps,
            step_size=step_size,
            **kwargs,
        )
        self.decoder = Linear(hidden_channels, width)
        self.reset_parameters()

    def reset_parameters(self):
        r"""Draws all weights anew."""
        for module in self.children():
            module.reset_parameters()
        for token in (self.mask_token, self.cls):
            if token is not None:
                torch.nn.init.normal_(token, std=0.002)

    @property
    def num_patches(self) -> int:
        r"""Number of patches R S."""
        return self.grid[0] * self.grid[1]

    @property
    def num_tokens(self) -> int:
        r"""Number of tokens N of an image, with the class token."""
        return self.num_patches + int(self.cls is not None)

    def forward(
        self,
        images: Tensor,
        mask: OptTensor = None,
        clamp: Optional[bool] = None,
    ) -> Tensor:
        r"""Predicts all pixels, those of visible patches, too.

        Args:
            images (Tensor): :math:`[B, c, H, W]`; hidden pixels may hold
                anything.
            mask (Tensor, optional): Hidden patches, bool :math:`[B, R S]` or
                :math:`[R S]`.
            clamp (bool, optional): Stands in for the model's :obj:`clamp`.
        """
        x = self.encode(images, mask)  # [B, N, C]
        out, _ = self.dynamics(len(images), mask, clamp).run(x.flatten(0, 1))
        return self.decode(out.view_as(x))

    @torch.no_grad()
    def complete(
        self,
        images: Tensor,
        mask: OptTensor = None,
        clamp: Optional[bool] = None,
    ) -> Tuple[Tensor, EnergyTrace]:
        r"""Fills hidden patches, and keeps a trace of the energies.

        Without a mask, the whole image is retrieved. The last energy of the
        trace is that of the image, tokens and memories together.

        Args:
            images (Tensor): :math:`[B, c, H, W]`.
            mask (Tensor, optional): Hidden patches, bool.
            clamp (bool, optional): Stands in for the model's :obj:`clamp`.

        Returns:
            (Tensor, EnergyTrace): The images, visible pixels as they were;
            energies :math:`[T + 1, B]`.
        """
        size = len(images)
        x = self.encode(images, mask)  # [B, N, C]
        batch = torch.arange(size, device=x.device)
        out, trace = self.dynamics(size, mask, clamp).run(
            x.flatten(0, 1),
            batch.repeat_interleave(x.size(1)),
            size,
            trace=True,
        )
        assert trace is not None
        completed = self.decode(out.view_as(x))
        if mask is not None:
            hidden = self.hidden_pixels(mask, size)
            completed = torch.where(hidden, completed, images)
        return completed, trace

    @torch.no_grad()
    def complete_graph(
        self, data: Data, mask: OptTensor = None
    ) -> Tuple[Tensor, EnergyTrace]:
        r"""As :meth:`complete`, along the edges of given grid graphs.

        Args:
            data (Data): One graph or a batch, from
                :func:`~torch_energy_graph.data.image_to_grid_graph`.
            mask (Tensor, optional): Hidden nodes, bool :math:`[N]`.

        Returns:
            (Tensor, EnergyTrace): New features :math:`[N, c p q]`, and
            energies :math:`[T + 1, B]`, or :math:`[T + 1]` of one graph.
        """
        is_cls = data.get('cls_mask')
        if is_cls is not None and self.cls is None:
            raise ValueError(
                'the graph has a class token, the model has none; build one '
                "of them with another 'cls_token'"
            )
        x = self._embed(data.x, mask)  # [N, C]
        if is_cls is not None:
            x = torch.where(is_cls.unsqueeze(-1), self.cls, x)
        x = x + self.positions(data.pos)
        attention = self.block.attention
        tokens = EdgeTokens(attention, attention.prepare(x, data.edge_index))
        fixed = None
        if mask is not None and self.clamp:
            fixed = ~mask if is_cls is None else ~(mask | is_cls)
        x, trace = ImageDynamics(self.block, tokens, fixed).run(
            x,
            data.batch,
            data.num_graphs if data.batch is not None else None,
            trace=True,
        )
        assert trace is not None
        out = self._read(x)
        if mask is not None:
            out = torch.where(mask.unsqueeze(-1), out, data.x)
        return out, trace

    def encode(self, images: Tensor, mask: OptTensor = None) -> Tensor:
        r"""The first state :math:`x^0` of all tokens, :math:`[B, N, C]`.

        Args:
            images (Tensor): :math:`[B, c, H, W]`.
            mask (Tensor, optional): Hidden patches, bool.
        """
        size = (self.in_channels, *self.image_size)
        if images.dim() != 4 or tuple(images.shape[1:]) != size:
            raise ValueError(
                f"'{self.__class__.__name__}' expects images of shape [B, "
                f'{", ".join(map(str, size))}] (got {list(images.shape)})'
            )
        patches = image_to_patches(images, self.patch_size)  # [B, R S, P]
        if mask is not None:
            mask = self._expanded(mask, len(images))
        x = self._embed(patches, mask)
        if self.cls is not None:
            x = torch.cat([self.cls.expand(len(images), 1, -1), x], dim=1)
        return x + self.positions()

    def decode(self, x: Tensor) -> Tensor:
        r"""The images that states stand for.

        Args:
            x (Tensor): States of all tokens, :math:`[B, N, C]`.
        """
        if self.cls is not None:
            x = x[:, 1:]
        patches = self._read(x)
        return patches_to_image(patches, self.image_size, self.patch_size)

    def dynamics(
        self,
        batch_size: int,
        mask: OptTensor = None,
        clamp: Optional[bool] = None,
    ) -> ImageDynamics:
        r"""How the tokens of so many images move.

        Args:
            batch_size (int): Number of images B.
            mask (Tensor, optional): Hidden patches, bool :math:`[B, R S]` or
                :math:`[R S]`.
            clamp (bool, optional): Whether only their tokens, and the class
                token, move. (default: the model's :obj:`clamp`)
        """
        fixed = None
        if mask is not None and (self.clamp if clamp is None else clamp):
            fixed = ~self._expanded(mask, batch_size)
            if self.cls is not None:
                fixed = F.pad(fixed, (1, 0), value=False)
            fixed = fixed.flatten()
        return ImageDynamics(self.block, self._tokens(batch_size), fixed)

    def hidden_pixels(self, mask: Tensor, batch_size: int) -> Tensor:
        r"""The pixels of hidden patches, bool :math:`[B, 1, H, W]`.

        Args:
            mask (Tensor): Hidden patches, bool :math:`[B, R S]` or
                :math:`[R S]`.
            batch_size (int): Number of images B.
        """
        area = self.patch_size[0] * self.patch_size[1]
        pixels = self._expanded(mask, batch_size).unsqueeze(-1)
        pixels = pixels.expand(-1, -1, area)
        return patches_to_image(pixels, self.image_size, self.patch_size)

    def _embed(self, patches: Tensor, mask: OptTensor) -> Tensor:
        """Tokens of patches, without positions."""
        if mask is None:
            return self.encoder(patches)
        mask = mask.unsqueeze(-1)
        # hidden pixels may be NaN: they must not meet a weight
        x = self.encoder(patches.masked_fill(mask, 0.0))
        return torch.where(mask, self.mask_token, x)

    def _read(self, x: Tensor) -> Tensor:
        return self.decoder(self.block.norm(x))

    def _expanded(self, mask: Tensor, batch_size: int) -> Tensor:
        """A mask of patches as [B, R S]."""
        shapes = ((batch_size, self.num_patches), (self.num_patches,))
        if mask.dtype != torch.bool or tuple(mask.shape) not in shapes:
            raise ValueError(
                f"'{self.__class__.__name__}' expects a mask of patches, bool "
                f'[{batch_size}, {self.num_patches}] or [{self.num_patches}] '
                f'(got {list(mask.shape)} of {mask.dtype})'
            )
        return mask.expand(batch_size, -1)

    def _tokens(self, batch_size: int) -> Union[AllTokens, EdgeTokens]:
        """Who attends to whom in so many images."""
        attention = self.block.attention
        if self.edge_index is None:
            return AllTokens(attention, self.num_tokens, self.self_loops)
        self._last_edges = batched_edges(
            self.edge_index, batch_size, self.num_tokens, self._last_edges
        )
        return EdgeTokens(attention, self._last_edges)

    def __repr__(self) -> str:
        return (
            f'{self.__class__.__name__}({self.image_size}, '
            f'{self.patch_size}, block={self.block})'
        )
