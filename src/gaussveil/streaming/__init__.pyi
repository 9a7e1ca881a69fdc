from gaussveil.streaming.fleet import FleetGateway as FleetGateway
from gaussveil.streaming.readings import Answer as Answer
from gaussveil.streaming.gateway import Gateway as Gateway
from gaussveil.streaming.readings import Message as Message
from gaussveil.streaming.meters import Meter as Meter
from gaussveil.streaming.meters import read_meters as read_meters
from gaussveil.streaming.meters import write_meters as write_meters
from gaussveil.streaming.state import StreamState as StreamState
