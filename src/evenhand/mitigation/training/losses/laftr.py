"""LAFTR: a representation from which an adversary cannot tell the group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.errors import OptionError
from evenhand.mitigation.training.losses.group_penalties import one_hot_members
from evenhand.mitigation.training.losses.loss import TrainingBatch, TrainingTask, check_groups
from evenhand.mitigation.training.network import TrainableNetwork, random_layer

if TYPE_CHECKING:
    import torch

ADVERSARY = 64
"""Units of the adversary's hidden layer."""

ADVERSARY_STEPS = 5
"""Steps of the adversary before each of the network: one that lags behind is fooled by what hides nothing."""

ADVERSARY_RATE = 0.01

RECONSTRUCTION = 0.01
"""Weight of the error of reconstruction beside the adversary's."""


class LAFTR:
    """Representations that predict the label, hide the group, and still tell something of what they were made from.

    The hidden layers before the last are the encoder; what follows is the classifier, so the network has the shape of
    every other method's. At every step an adversary (one hidden layer) first learns to tell the group from the
    representation; then encoder and classifier learn against it. What the encoder brings down is the probability that
    the adversary gives the right group, averaged over the groups: with two groups the best adversary's bounds how far
    apart any classifier on the representation can treat them. A decoder rebuilds the features, with a small weight.

    The adversary itself learns by cross entropy, which does not stand still where it is sure and wrong; more than two
    groups are ours.

    Source: Madras, Creager, Pitassi, Zemel: Learning Adversarially Fair and Transferable Representations, ICML 2018,
    sections 3 and 4 (demographic parity).
    """

    default = 2.0
    sweep: tuple[float, ...] = (0.3, 1.0, 2.0, 4.0, 8.0)

    def prepare(self, task: TrainingTask, network: TrainableNetwork) -> list[torch.Tensor]:
        """Make the adversary, which learns by steps of its own, and the decoder, which learns along.

        Raises:
            OptionError: the network has no hidden layer, so there is no representation; or there are not two groups.
        """
        import torch

        check_groups(task, "LAFTR")
        hidden = len(network.layers) - 1
        if hidden == 0:
            raise OptionError("laftr needs a hidden layer: without one there is no representation")
        self._depth = max(1, hidden - 1)
        self._groups = task.groups
        units = network.layers[self._depth - 1][0].shape[1]
        sizes = ((units, ADVERSARY), (ADVERSARY, task.groups))
        self._adversary = [random_layer(inputs, outputs, task.generator) for inputs, outputs in sizes]
        self._decoder = random_layer(units, network.encoding.width, task.generator)
        tensors = [tensor for layer in self._adversary for tensor in layer]
        self._optimiser = torch.optim.Adam(tensors, lr=ADVERSARY_RATE)
        return list(self._decoder)

    def penalty(self, network: TrainableNetwork, batch: TrainingBatch, logits: torch.Tensor) -> torch.Tensor:
        """How much surer of the right group the adversary is than by guessing, plus the weighted reconstruction."""
        import torch

        representation = network.hidden_units(batch.features, self._depth)
        weight, bias = self._decoder
        rebuilt = torch.addmm(bias, representation, weight)
        known = batch.groups >= 0
        advantage = representation.new_zeros(())
        if bool(known.any()):
            told, groups = representation[known], batch.groups[known]
            self._train_adversary(told.detach(), groups)
            advantage = balanced_accuracy(self._group_log_probabilities(told).exp(), groups) - 1 / self._groups
        return advantage + RECONSTRUCTION * ((rebuilt - batch.features) ** 2).mean()

    def _train_adversary(self, told: torch.Tensor, groups: torch.Tensor) -> None:
        for _ in range(ADVERSARY_STEPS):
            self._optimiser.zero_grad()
            (-balanced_accuracy(self._group_log_probabilities(told), groups)).backward()
            self._optimiser.step()

    def _group_log_probabilities(self, told: torch.Tensor) -> torch.Tensor:
        """Log-probability of every group, shape (n, groups)."""
        import torch

        (first, shift), (second, bias) = self._adversary
        return torch.log_softmax(torch.addmm(bias, torch.relu(torch.addmm(shift, told, first)), second), dim=1)


def balanced_accuracy(guesses: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    """What is given to the right group, guesses (n, groups): the mean within each group, averaged over the groups."""
    right = guesses.gather(1, groups[:, None])[:, 0]
    member = one_hot_members(groups, right)
    return ((right @ member) / member.sum(dim=0)).mean()
