"""Models as chains of layers with what each computes, holds and passes on: facts of the models, no times."""
