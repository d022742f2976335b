"A function that tests ask the same again and again."


def once_each(function):
    "`function`, of keywords: what it was asked before it computes no second time."
    kept = {}

    def asked(**given):
        key = str(sorted(given.items()))
        if key not in kept:
            kept[key] = function(**given)
        return kept[key]

    return asked
