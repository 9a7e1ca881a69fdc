"""Exchange with other accountants: events and distributions of dp_accounting, and drop-in accountants."""

from gaussveil.accounting.exchange.events import charges_from_event
from gaussveil.accounting.exchange.events_out import event_from_charges
from gaussveil.accounting.exchange.loss_distributions import (
    distribution_of,
    loss_distribution,
)

__all__ = [
    "charges_from_event",
    "distribution_of",
    "event_from_charges",
    "loss_distribution",
]
