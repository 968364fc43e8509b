package probe

import "github.com/tolbooth-dev/tolbooth/cowfs"

// trees is what cowfs found out where the agent would keep the changes of jobs.
type trees struct {
	cowfs.Support
	dir string
	err error // there is no such place
}

func probeTrees(stateDir string) trees {
	dir, err := existing(stateDir)
	if err != nil {
		return trees{err: err}
	}
	return trees{Support: cowfs.Probe(dir), dir: dir}
}

func overlayLayer(t trees) Layer {
	if t.err != nil {
		return missing("overlay", t.err.Error(), "make the state directory, or name another with --state")
	}
	if t.Problem != "" {
		return missing("overlay", t.Problem, "grant CAP_SYS_ADMIN and keep the state directory on a local disk (ext4, xfs, btrfs) or a tmpfs; --state names it")
	}
	found := t.FSType + " at " + t.dir
	if t.Volatile {
		found += ", volatile"
	}
	return ok("overlay", found)
}

// baseLayer says whether a jail sees the node's /usr through a file system of its own.
func baseLayer(t trees) Layer {
	switch {
	case t.err != nil || t.Problem != "":
		return missing("base-overlay", "no overlay can be tried: see overlay", "see overlay")
	case !t.OwnBase:
		return missing("base-overlay", t.SharedBase,
			"run the agent where /usr lies on at most one overlay (not in a container inside a container); without it a job's locks and watches meet those of the node and other jobs on the files of /usr")
	}
	return ok("base-overlay", "")
}

// quotaLayer says whether the file system holds jobs to their disk limits.
func quotaLayer(t trees) Layer {
	switch {
	case t.err != nil || t.Problem != "":
		return missing("quota", "no quota can be tried: see overlay", "see overlay")
	case !t.Quota:
		return missing("quota", t.NoQuota+": the agent counts what a job holds, and ends it when that is over its disk limit",
			"keep the state directory on a file system of its own: ext4 made with -O quota,project and mounted with prjquota, or xfs mounted with prjquota")
	}
	return ok("quota", "project quotas of "+t.FSType)
}
