"""What the service keeps: machines that take operations one after another, without any input or output of their own."""

from __future__ import annotations

from evenhand.service.machines.genai import GuardMachine
from evenhand.service.machines.keys import KeyMachine
from evenhand.service.machines.machine import Machine
from evenhand.service.machines.shield import ShieldMachine

__all__ = ["GuardMachine", "KeyMachine", "Machine", "ShieldMachine"]
