"""Transport and durable state of meter streams: the gateway between meters and whoever may see private readings."""

from gaussveil.streaming.fleet import FleetGateway
from gaussveil.streaming.gateway import Answer, Gateway, Message
from gaussveil.streaming.meters import Meter, read_meters, write_meters
from gaussveil.streaming.state import StreamState

__all__ = ["Answer", "FleetGateway", "Gateway", "Message", "Meter", "StreamState", "read_meters", "write_meters"]
