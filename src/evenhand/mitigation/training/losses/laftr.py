"""LAFTR: a representation from which an adversary cannot predict the group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.errors import OptionError
from evenhand.mitigation.training.losses.group_penalties import one_hot_members
from evenhand.mitigation.training.losses.loss import TrainingBatch, TrainingPlan, check_groups
from evenhand.mitigation.training.network import TrainableNetwork, random_layer

if TYPE_CHECKING:
    import torch

ADVERSARY = 64
"""Number of units of the adversary's hidden layer."""

ADVERSARY_STEPS = 5
"""Number of steps of the adversary before each step of the network. A weak adversary is easily deceived."""

ADVERSARY_RATE = 0.01

RECONSTRUCTION = 0.01
"""Weight of the reconstruction error."""


class LAFTR:
    """Penalty on a representation that reveals the group.

    All hidden layers except the last form the encoder, and the remaining layers the classifier. At each step an
    adversary with one hidden layer first learns to predict the group from the representation. Then the encoder and the
    classifier learn against it. The penalty is the adversary's probability of the correct group, averaged over the
    groups. With two groups, the probability of the best adversary bounds the difference in treatment by any classifier
    on the representation. A decoder reconstructs the features, with a small weight.

    The adversary learns by cross-entropy, whose gradient does not vanish for confident errors. Support for more than
    two groups is our addition.

    References:
        Madras, Creager, Pitassi, Zemel, "Learning Adversarially Fair and Transferable Representations", ICML 2018,
        sections 3 and 4 (demographic parity).
    """

    default = 2.0
    sweep: tuple[float, ...] = (0.3, 1.0, 2.0, 4.0, 8.0)

    def prepare(self, plan: TrainingPlan, network: TrainableNetwork, generator: torch.Generator) -> list[torch.Tensor]:
        """Create the adversary, which has its own optimiser, and return the decoder.

        Raises:
            OptionError: The network has no hidden layer, or there are fewer than two groups.
        """
        import torch

        check_groups(plan, "LAFTR")
        hidden = len(network.layers) - 1
        if hidden == 0:
            raise OptionError("laftr requires a hidden layer for its representation", hint="set hidden=(64, 16)")
        self._depth = max(1, hidden - 1)
        self._groups = plan.group_count
        units = network.layers[self._depth - 1][0].shape[1]
        sizes = ((units, ADVERSARY), (ADVERSARY, plan.group_count))
        self._adversary = [random_layer(inputs, outputs, generator) for inputs, outputs in sizes]
        self._decoder = random_layer(units, network.encoding.width, generator)
        tensors = [tensor for layer in self._adversary for tensor in layer]
        self._optimiser = torch.optim.Adam(tensors, lr=ADVERSARY_RATE)
        return list(self._decoder)

    def penalty(self, network: TrainableNetwork, batch: TrainingBatch, logits: torch.Tensor) -> torch.Tensor:
        """Compute the adversary's advantage over guessing plus the weighted reconstruction error."""
        import torch

        representation = network.hidden_units(batch.features, self._depth)
        weight, bias = self._decoder
        reconstruction = torch.addmm(bias, representation, weight)
        members = batch.groups >= 0
        advantage = representation.new_zeros(())
        if bool(members.any()):
            inputs, groups = representation[members], batch.groups[members]
            for _ in range(ADVERSARY_STEPS):
                self._optimiser.zero_grad()
                (-balanced_accuracy(self._group_log_probabilities(inputs.detach()), groups)).backward()
                self._optimiser.step()
            advantage = balanced_accuracy(self._group_log_probabilities(inputs).exp(), groups) - 1 / self._groups
        return advantage + RECONSTRUCTION * ((reconstruction - batch.features) ** 2).mean()

    def _group_log_probabilities(self, inputs: torch.Tensor) -> torch.Tensor:
        """Compute the log-probability of each group, shape (n, groups)."""
        import torch

        (weight, shift), (output, bias) = self._adversary
        return torch.log_softmax(torch.addmm(bias, torch.relu(torch.addmm(shift, inputs, weight)), output), dim=1)


def balanced_accuracy(guesses: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    """Average the guesses (n, groups) for the correct group within each group, and then over the groups."""
    correct = guesses.gather(1, groups[:, None])[:, 0]
    members = one_hot_members(groups, correct)
    return ((correct @ members) / members.sum(dim=0)).mean()
