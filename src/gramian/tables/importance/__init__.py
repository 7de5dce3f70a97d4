"""Importances of the columns of a table: permutation losses on rows that the models have not seen."""
