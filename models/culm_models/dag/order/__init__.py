"""The total order of publishes (reference 5), which does not depend on the order of arrival.

`ranks`: the sort key of an operation, as a linked stack. `ranked_list`: sorted operations with their
positions. `total_order`: takes operations in any order of arrival; reports the first changed position, the
tip and heads.
"""
