package cowfs

import "context"

func (t *Tree) restore(ctx context.Context, o CreateOptions) error { return ErrUnsupported }
