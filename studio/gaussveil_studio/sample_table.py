"""A table of nobody to try things on: homes, their district and heating, and a reading for every hour of two days.

Made from a fixed seed, so everybody has the same one.
"""

from __future__ import annotations

import io
import math
import random
from datetime import datetime, timedelta

NAME = "homes of nobody (sample).csv"
HOMES = 200
HOURS = 48
DISTRICTS = ("North", "East", "South", "West", "Old town")
HEATINGS = ("gas", "heat pump", "wood")
FIRST = datetime(2024, 1, 15)
ORDER = {  # what the tour asks for, as the form calls it
    "unit": "home",
    "column": "kWh",
    "by_column": "time",
    "low": "0",
    "high": "5",
    "measured_in": "kWh",
    "units": "200",
}


def sample_table() -> io.BytesIO:
    """The table as a CSV file."""
    chance = random.Random("homes of nobody")
    lines = ["home,time,district,heating,kWh"]
    for home in range(1, HOMES + 1):
        size = chance.gammavariate(5.0, 0.2)
        heating = chance.choices(HEATINGS, (5, 4, 1))[0]
        named = f"H{home:03}"
        for hour in range(HOURS):
            day = (
                0.35
                + 0.25 * math.exp(-(((hour % 24) - 7.5) ** 2) / 4)
                + 0.5 * math.exp(-(((hour % 24) - 19) ** 2) / 8)
            )
            if heating == "heat pump" and (hour % 24) in (4, 5, 6, 22, 23):
                warm = 0.4
            else:
                warm = 0.0
            kwh = size * (day + warm) * chance.gammavariate(4.0, 0.25)
            when = FIRST + timedelta(hours=hour)
            lines.append(
                f"{named},{when:%Y-%m-%d %H:%M},{DISTRICTS[home % 5]},{heating},{kwh:.3f}"
            )
    return io.BytesIO(("\n".join(lines) + "\n").encode())
