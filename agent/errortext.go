package agent

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// complaint is one error message that a program printed: the error that its words stand for, and the absolute paths beside
// them, the nearest first. It is the job's own text and proves nothing.
type complaint struct {
	errno   unix.Errno
	paths   []string
	context string // the line, and a little of what was printed before it
	line    string // what comes before the words on their line
}

// errorPhrases are the C library's words for the errors that a rule of ours can cause. Python, Node, Go, Java, Perl, Ruby,
// compilers and shells print the same words, at most in small letters.
var errorPhrases = map[string]unix.Errno{
	"read-only file system":   unix.EROFS,
	"permission denied":       unix.EACCES,
	"operation not permitted": unix.EPERM,
	"no space left on device": unix.ENOSPC,
	"disk quota exceeded":     unix.EDQUOT,
	"too many open files":     unix.EMFILE,
	"file too large":          unix.EFBIG,
}

var phrasePattern = regexp.MustCompile(`(?i)read-only file system|permission denied|operation not permitted|no space left on device|disk quota exceeded|too many open files|file too large`)

// Bounds of what is read of a job's output. Beyond them an error goes unexplained, no more.
const (
	errorTail    = 64 << 10 // bytes of each stream, from its end
	errorPlaces  = 128      // phrases in those, from the end
	errorLine    = 512      // bytes looked at on each side of a phrase
	errorContext = 2 << 10  // and of what comes before it
)

// complaints finds the error messages at the end of a stream, in time linear in its length: each phrase costs at most a
// fixed look around itself.
func complaints(output []byte) []complaint {
	tail := output[max(0, len(output)-errorTail):]
	var found []complaint
	places := phrasePattern.FindAllIndex(tail, -1)
	for _, at := range places[max(0, len(places)-errorPlaces):] {
		context := tail[max(0, at[0]-errorContext):at[0]]
		before := context[max(0, len(context)-errorLine):]
		before = before[bytes.LastIndexByte(before, '\n')+1:]
		after := tail[at[1]:min(len(tail), at[1]+errorLine)]
		if i := bytes.IndexByte(after, '\n'); i >= 0 {
			after = after[:i]
		}
		if !reports(before, after) {
			continue
		}
		found = append(found, complaint{
			errno:   errorPhrases[strings.ToLower(string(tail[at[0]:at[1]]))],
			paths:   pathsBeside(string(before), string(after)),
			context: string(context), line: string(before),
		})
	}
	return found
}

// reports tells an error message from the same words in running text: who reports an error sets it off with a colon, a
// bracket or a quote, and ends there or goes on behind punctuation.
func reports(before, after []byte) bool {
	opens := len(before) == 0
	for _, s := range []string{": ", "] ", "(", "'", `"`} {
		opens = opens || bytes.HasSuffix(before, []byte(s))
	}
	ends := len(bytes.TrimSpace(after)) == 0 || strings.IndexByte(":,.;)'\"!\x1b", after[0]) >= 0
	for _, s := range []string{" at ", " @ ", " ("} { // Perl, Ruby, ssh
		ends = ends || bytes.HasPrefix(after, []byte(s))
	}
	return opens && ends
}

// pathPattern finds absolute paths: in quotes, where they may hold anything else, or bare.
var pathPattern = regexp.MustCompile("'(/[^']*)'|\"(/[^\"]*)\"|‘(/[^’]*)’|`(/[^`']*)['`]|(?:^|[\\s(=:])(/[^\\s'\"‘’:,;()]*)")

// pathsBeside lists the absolute paths of a line around a phrase, the nearest first. A path that opens the line is the
// name of the program that complains, unless nothing but a colon parts it from the phrase.
func pathsBeside(before, after string) []string {
	type place struct {
		path string
		away int
	}
	var found []place
	for _, at := range pathPattern.FindAllStringSubmatchIndex(before, -1) {
		path, end := submatch(before, at)
		if at[0] == 0 && before[0] == '/' && before[end:] != ": " {
			continue
		}
		found = append(found, place{path, len(before) - end})
	}
	for _, at := range pathPattern.FindAllStringSubmatchIndex(after, -1) {
		path, _ := submatch(after, at)
		found = append(found, place{path, at[0]})
	}
	slices.SortStableFunc(found, func(a, b place) int { return cmp.Compare(a.away, b.away) })
	var paths []string
	for _, p := range found {
		if strings.HasPrefix(p.path, "//") {
			continue // the rest of a URL
		}
		paths = append(paths, p.path)
	}
	return paths
}

// submatch is the one group that matched, and its end.
func submatch(text string, at []int) (string, int) {
	for i := 2; i < len(at); i += 2 {
		if at[i] >= 0 {
			return text[at[i]:at[i+1]], at[i+1]
		}
	}
	return "", 0
}
