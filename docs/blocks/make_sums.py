"""Write a benchmark of 160 sums as sums.csv."""

import csv
import random

draw = random.Random(4)
rows = [["Question", "Option A", "Option B", "Option C", "Option D", "Correct Answer", "Topic"]]
for n in range(160):
    a, b = draw.randrange(200, 900), draw.randrange(200, 900)
    topic, sign, right = [("adding", "+", a + b), ("taking away", "-", a - b)][n % 2]
    steps, key = draw.sample(range(-40, 41), 4), draw.randrange(4)
    options = [str(right + step - steps[key]) for step in steps]
    if n % 3 == 0:  # the author explains only the right answer
        options[key] += f", since {right} {'-' if sign == '+' else '+'} {b} is {a}"
    rows.append([f"What is {a} {sign} {b}?", *options, "ABCD"[key], topic])
with open("sums.csv", "w", newline="") as file:
    csv.writer(file).writerows(rows)
