"""Lists of networks: who may ask. Pure."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class Networks:
    """Those whose addresses are among them."""

    each: tuple[Network, ...]

    def __contains__(self, address: object) -> bool:
        """Whether an address, as text, lies in one of them; an IPv4 address within IPv6 is that IPv4 address."""
        try:
            found = ipaddress.ip_address(str(address).partition("%")[0])
        except ValueError:
            return False
        inner = getattr(found, "ipv4_mapped", None) or found
        return any(inner in network for network in self.each)


def parse_networks(text: str) -> Networks:
    """Addresses and networks, separated by commas; none: nobody.

    Raises:
        ValueError: one of them is none; the sentence says how they are written.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    try:
        return Networks(tuple(map(ipaddress.ip_network, words)))
    except ValueError as error:
        raise ValueError(f"{error}; write addresses and networks as 127.0.0.0/8,::1,10.1.0.0/16") from error
