"""A small recommender that grows and shrinks while it trains, its gradients added up by a server.

    python docs/examples/recommender.py                                                   alone
    freetrain run --trainer t3 --nproc 2 --servers 1 -- python docs/examples/recommender.py   two workers, a server
    freetrain poke t3 --grow 1                                                            from another terminal

Most of the model are tables of users and films: much to send, little to compute. The ratings are made up.
The script knows nothing of servers; without --servers the workers add up by themselves.
"""

from __future__ import annotations

import sys

import torch
from torch import nn

from freetrain import elastic

USERS, FILMS, TASTES = 2000, 1000, 16


class Ratings(torch.utils.data.Dataset):
    """Users like films of their taste; rating ``i`` is always the same, wherever it is asked for."""

    def __init__(self, ratings: int, seed: int) -> None:
        random = torch.Generator().manual_seed(0)
        self.likes = torch.randn(USERS, 4, generator=random)
        self.shows = torch.randn(FILMS, 4, generator=random)
        random.manual_seed(seed)
        self.users = torch.randint(USERS, (ratings,), generator=random)
        self.films = torch.randint(FILMS, (ratings,), generator=random)

    def __len__(self) -> int:
        return len(self.users)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        user, film = self.users[i], self.films[i]
        return user, film, (self.likes[user] * self.shows[film]).sum()


class Recommender(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.users = nn.Embedding(USERS, TASTES)
        self.films = nn.Embedding(FILMS, TASTES)

    def forward(self, users: torch.Tensor, films: torch.Tensor) -> torch.Tensor:
        return (self.users(users) * self.films(films)).sum(1)


def error_of(model: Recommender, data: Ratings) -> float:
    users, films, ratings = torch.utils.data.default_collate([data[i] for i in range(len(data))])
    with torch.no_grad():
        return float((model(users, films) - ratings).square().mean())


def main() -> None:
    torch.manual_seed(0)
    device = elastic.device()
    model = Recommender().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    loader = torch.utils.data.DataLoader(Ratings(128_000, seed=1), batch_size=512, shuffle=True)
    epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    with elastic.Loop(model, optimizer, loader, epochs=epochs) as run:
        for epoch in run.epochs():
            for users, films, ratings in run.batches:
                optimizer.zero_grad()
                loss = (model(users.to(device), films.to(device)) - ratings.to(device)).square().mean()
                loss.backward()
                optimizer.step()
            # All ranks have to ask for a mean.
            mean = run.mean(float(loss), weight=len(users))
            if run.rank == 0:
                print(f"epoch {epoch}  loss {mean:.3f}  on {run.world_size} workers", flush=True)
        if run.rank == 0:
            print(f"error {error_of(model.cpu(), Ratings(4000, seed=2)):.3f} after {run.step} steps")


if __name__ == "__main__":
    main()
