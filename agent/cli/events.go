package cli

import (
	"io"
	"iter"

	"github.com/go-json-experiment/json"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/agent/client"
)

// each shows every event until one is an error or cannot be shown.
func each(events iter.Seq2[api.Event, error], show func(api.Event) error) error {
	for event, err := range events {
		if err != nil {
			return err
		}
		if err := show(event); err != nil {
			return err
		}
	}
	return nil
}

// printOutput prints a piece of a job's output as it comes, each stream to its own.
func (t *tool) printOutput(e api.Event) error {
	var to io.Writer
	switch e.Type {
	case "stdout":
		to = t.Stdout
	case "stderr":
		to = t.Stderr
	default:
		return nil
	}
	data, err := client.Output(e)
	if err != nil {
		return err
	}
	_, err = to.Write(data)
	return err
}

// printEvent prints an event as a line of JSON.
func (t *tool) printEvent(e api.Event) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = t.Stdout.Write(append(line, '\n'))
	return err
}
