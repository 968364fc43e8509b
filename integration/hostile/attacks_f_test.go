package hostile

// Chapter F: secrets and what leaks.
var attacksF = []attack{
	{id: "F1", file: "f01_secrets.py", held: 4},
}
