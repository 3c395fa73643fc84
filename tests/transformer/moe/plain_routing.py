"""What routings do, token by token, in plain Python."""

import numpy as np


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


class Experts:
    """The slots of the experts of one group."""

    def __init__(self, count, capacity):
        self.capacity = capacity
        self.free = [0] * count

    def take(self, expert):
        """The next slot of an expert, or -1."""
        if expert < 0 or self.free[expert] == self.capacity:
            return -1
        self.free[expert] += 1
        return expert * self.capacity + self.free[expert] - 1


def in_order(experts, count, capacity):
    """[choices, group] experts to slots: all first choices first."""
    room = Experts(count, capacity)
    return np.array([[room.take(e) for e in row] for row in experts])


def by_score(scores, capacity):
    """[group, experts] scores to [experts, group] slots, for those not below 0."""
    slots = np.full(scores.T.shape, -1)
    for expert, column in enumerate(scores.T):
        best = np.argsort(-column, kind="stable")[:capacity]
        for place, token in enumerate(t for t in best if column[t] >= 0):
            slots[expert, token] = expert * capacity + place
    return slots


def switch(p, real, capacity):
    expert = np.where(real > 0, p.argmax(-1), -1)
    weights = np.where(real > 0, p.max(-1), 0)
    return in_order([expert], p.shape[1], capacity), weights[None]


def switch_max(p, real, capacity):
    expert, weights = np.where(real > 0, p.argmax(-1), -1), np.where(real > 0, p.max(-1), 0)
    mine = expert[:, None] == np.arange(p.shape[1])
    slots = by_score(np.where(mine, p, -1), capacity)
    return slots.max(0)[None], weights[None]


def top(p, real, capacity, choices):
    ranked = np.argsort(-p, -1, kind="stable")[:, :choices].T
    found = np.take_along_axis(p, ranked.T, -1).T * real
    experts = np.where(real > 0, ranked, -1)
    return in_order(experts, p.shape[1], capacity), found / (found.sum(0) + 1e-9)


def ntlb(p, real, capacity, choices):
    ranked = np.argsort(-p, -1, kind="stable")[:, :choices]
    room = Experts(p.shape[1], capacity)
    slots, weights = np.full(len(p), -1), np.where(real > 0, p.max(-1), 0)
    tried = ranked[:, 0].copy()
    for number in range(choices):
        for token in np.flatnonzero((slots < 0) & (real > 0)):
            tried[token] = ranked[token, number]
            slots[token] = room.take(tried[token])
    weights = np.where(real > 0, np.take_along_axis(p, tried[:, None], -1)[:, 0], 0)
    return slots[None], weights[None]


def expert_selection(logits, real, capacity):
    p = softmax(np.where(real[:, None] > 0, logits, -1e9), 0) * real[:, None]
    slots = by_score(np.where(real[:, None] > 0, p, -1), capacity)
    return slots, p.T / np.maximum((slots >= 0).sum(0), 1)


def balance(p, wanted, real):
    """Of one group: experts x the sum of share x mean probability, over its tokens."""
    n = max(real.sum(), 1)
    share = (wanted * real[:, None]).sum(0) / n
    return p.shape[1] * float(share @ (p * real[:, None]).sum(0)) / n
