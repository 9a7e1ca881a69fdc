"""Exchange with other accountants: events and distributions of dp_accounting, and drop-in accountants."""

from gaussveil.accounting.exchange.events import (
    charges_from_event,
    distribution_of,
    event_from_charges,
    loss_distribution,
)

__all__ = [
    "charges_from_event",
    "distribution_of",
    "event_from_charges",
    "loss_distribution",
]
