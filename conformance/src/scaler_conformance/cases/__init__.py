"""The cases, one module for each topic. Importing a module registers its cases."""
