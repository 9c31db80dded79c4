"""Low-rank matrices that learn instead of an encoder's weights (LoRA, Hu et al. 2022)."""

import torch

from encoders.errors import BadInput


def add_adapters(module: torch.nn.Module, rank: int) -> None:
    """Freeze a module, and let low-rank matrices learn in its attention. Raises BadInput: it has no linear layers."""
    for weight in module.parameters():
        weight.requires_grad_(False)
    layers = [
        layer for name, layer in module.named_modules() if isinstance(layer, torch.nn.Linear) and "attention" in name
    ]
    if not layers:
        raise BadInput(
            "the lower encoder has no linear layers in its attention to put adapters beside; train all of it"
        )
    for layer in layers:
        torch.nn.utils.parametrize.register_parametrization(layer, "weight", _LowRank(layer, rank))


def merge_adapters(module: torch.nn.Module) -> None:
    """Add the adapters' matrices to the weights that they adapt, and remove the adapters."""
    for layer in list(module.modules()):
        if torch.nn.utils.parametrize.is_parametrized(layer, "weight"):
            torch.nn.utils.parametrize.remove_parametrizations(layer, "weight", leave_parametrized=True)


class _LowRank(torch.nn.Module):
    """W → W + B A, where B is zero before training."""

    def __init__(self, layer: torch.nn.Linear, rank: int) -> None:
        super().__init__()
        self.down = torch.nn.Parameter(torch.randn(rank, layer.in_features) / layer.in_features**0.5)
        self.up = torch.nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight + self.up @ self.down
