"""The total order of publishes (reference 5): everywhere the same, whatever came first.

`ranks`: the sort key of an operation, as a linked stack. `ranked_list`: operations in order, with places.
`total_order`: operations in any order of arrival, from which place on the order changed, tip and heads.
"""
